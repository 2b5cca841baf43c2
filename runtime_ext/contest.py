"""Runners side by side: interleaved runs, in this process or in a fresh one.

``python -m runtime_ext.contest TASK.json PARENT`` is the fresh process: it loads executables and a
compiled TVM module, runs them in turn on the same input and prints their samples as JSON.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from runtime_ext.child_process import end_with_parent
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder

Array = np.ndarray[Any, Any]

_LONGEST_SETTLING_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Rules:
    """How long a contest lasts.

    Attributes
    ----------
    rounds
        Runs of each runner, at most.
    seconds
        When to end, but not before ``minimum`` rounds: the time of runs that are not slow.
    minimum
        Rounds in any case; six are the fewest whose median has a 95 % interval.
    warm_up
        Runs before each one that counts, which then meets its own data in the caches and its
        threads awake: the latency of a model that is run again and again. Slow runners have none.
    hopeless_seconds
        All the time that a slow runner gets, but for two rounds, if it takes more than three
        times as long as the fastest.
    """

    rounds: int = 60
    seconds: float = 20.0
    minimum: int = 6
    warm_up: int = 0
    hopeless_seconds: float = 20.0


def hold_contest(
    runners: Mapping[str, Callable[[], Any]],
    rules: Rules,
    done: Callable[[int], None] | None = None,
) -> dict[str, list[float]]:
    """Run all runners in turn, in another order in each round.

    In an order that only rotates, who follows a runner with the same weights would always find
    them in the cache.

    A runner of which 30 runs would take all the time allowed has ``minimum`` rounds only, or
    fewer if it is hopeless, and the first ones: its samples pair with the first samples of the
    others.

    Returns
    -------
    dict
        For each runner the seconds of its runs, after one or two that are not counted.
    """
    once: dict[str, float] = {}
    limit = rules.seconds / 30
    for name, run in runners.items():
        once[name] = _seconds(run)
        # The first run meets cold memory: what was slow once has a second try.
        if limit < once[name] < rules.hopeless_seconds:
            once[name] = _seconds(run)
    least = {
        name: max(2, min(rules.minimum, int(rules.hopeless_seconds / seconds)))
        if seconds > 3 * min(once.values())
        else rules.minimum
        for name, seconds in once.items()
        if seconds > limit
    }
    samples: dict[str, list[float]] = {name: [] for name in runners}
    spent = 0.0
    names = list(runners)
    for number in range(rules.rounds):
        if number >= rules.minimum and spent > rules.seconds:
            break
        for name in random.Random(number).sample(names, len(names)):
            if number >= least.get(name, rules.rounds):
                continue
            _settle()
            begin = time.perf_counter()
            for _ in range(0 if name in least else rules.warm_up):
                runners[name]()
            samples[name].append(_seconds(runners[name]))
            spent += 0.0 if name in least else time.perf_counter() - begin
        if done is not None:
            done(number + 1)
    return samples


def _seconds(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def _settle() -> None:
    """Wait until no thread of this process is busy.

    Runtimes let their threads spin for a while after a run (ONNX Runtime for 40 ms), which would
    take a CPU from whoever runs next.
    """
    deadline = time.perf_counter() + _LONGEST_SETTLING_SECONDS
    quiet = 0
    while quiet < 3 and time.perf_counter() < deadline:
        before = time.process_time()
        time.sleep(5e-3)
        quiet = quiet + 1 if time.process_time() - before < 5e-4 else 0


def hold_contest_elsewhere(
    executables: Mapping[str, Path], module: Path | None, lanes: int, rules: Rules
) -> dict[str, list[float]]:
    """A contest in a fresh process.

    Parameters
    ----------
    executables
        Saved executables by name.
    module
        A compiled TVM module (``.so``), which runs under the name ``tvm``; or None.
    lanes
        Threads of TVM.
    rules
        How long.

    Raises
    ------
    UserError
        If the process fails.
    """
    task = {
        "executables": {name: str(path) for name, path in executables.items()},
        "module": None if module is None else str(module),
        "rules": asdict(rules),
    }
    environment = {**os.environ, "TVM_NUM_THREADS": str(lanes)}
    with temporary_folder() as folder:
        file = folder / "task.json"
        file.write_text(json.dumps(task))
        command = [sys.executable, "-m", "runtime_ext.contest", str(file), str(os.getpid())]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if result.returncode:
        last = [f"it ended with {result.returncode}", *result.stderr.strip().splitlines()][-1]
        raise UserError(f"the measurement in a fresh process failed: {last}")
    return json.loads(result.stdout.splitlines()[-1])


def virtual_machine(module: Path, inputs: Mapping[str, Array]) -> Callable[[], Any]:
    """A compiled TVM module on what TVM runs it with, as a runner.

    That is its virtual machine, or of what ``relay.build`` made the graph executor.
    """
    import tvm

    library = tvm.runtime.load_module(str(module))
    if getattr(library, "type_key", None) == "GraphExecutorFactory":
        from runtime_ext.relay.baseline import graph_executor

        return graph_executor(library, inputs)
    from tvm import relax

    machine = relax.VirtualMachine(library, tvm.cpu())
    tensors = [tvm.runtime.tensor(value) for value in inputs.values()]
    main = machine["main"]
    return lambda: main(*tensors)


def machine_outputs(result: Any) -> list[Array]:
    """The outputs in what :func:`virtual_machine` 's runner returned."""
    return [result.numpy()] if hasattr(result, "numpy") else [part.numpy() for part in result]


def _main(file: str, parent: int) -> None:
    end_with_parent(parent)
    from runtime_ext.execution.executable import load

    task = json.loads(Path(file).read_text())
    runners: dict[str, Callable[[], Any]] = {}
    inputs: dict[str, Array] = {}
    for name, path in task["executables"].items():
        session = load(path).session()
        inputs = session.random_inputs(0)
        session.set_input(**inputs)
        runners[name] = session.run
    if task["module"] is not None:
        runners["tvm"] = virtual_machine(Path(task["module"]), inputs)
    print(json.dumps(hold_contest(runners, Rules(**task["rules"]))))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
