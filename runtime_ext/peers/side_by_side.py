"""Different runners of one model, compared and then timed in turn, in a fresh process.

``python -m runtime_ext.peers.side_by_side FOLDER`` is the fresh process: it reads ``task.json`` in
the folder, prints its progress as lines of JSON and writes ``result.json``.

All runners live in one process, so that their runs can be taken in pairs. They do not disturb
each other as long as only one is busy: threads of ONNX Runtime, OpenMP and TVM spin for a while
after a run, so the contest waits until the process is quiet before each run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from runtime_ext.child_process import end_with_parent
from runtime_ext.contest import Rules, hold_contest
from runtime_ext.peers import EXECUTABLE, RUNNERS, Started
from tvm_ios.contest.verdict import LARGEST_ERROR, output_errors
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.progress import Progress

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Contestant:
    """A runner and the file that it runs.

    Attributes
    ----------
    name
        Of its own; two executables may compete.
    runner
        A key of :data:`runtime_ext.peers.RUNNERS`, or ``executable``.
    path
        What it reads.
    """

    name: str
    runner: str
    path: str


@dataclass(frozen=True)
class Outcome:
    """What a contest came to.

    Attributes
    ----------
    samples
        For each runner the seconds of its runs; the i-th ones of all were taken in turn.
    errors
        For each runner the largest difference to the reference over all outputs, relative to
        the output's largest value.
    reference
        Whose outputs the others were compared with.
    failed
        Runners that could not run the model, with a sentence each.
    """

    samples: Mapping[str, Sequence[float]]
    errors: Mapping[str, float]
    reference: str
    failed: Mapping[str, str]


def hold_side_by_side(
    contestants: Sequence[Contestant],
    lanes: int,
    rules: Rules,
    progress: Progress | None = None,
) -> Outcome:
    """Compare and time runners in a fresh process.

    Parameters
    ----------
    contestants
        At least one executable, which must run and names the inputs. Outputs are compared with
        those of the first other runner, or with the first executable's where there is none.
    lanes
        Threads of each.
    rules
        How long.
    progress
        Called with (what, done, total).

    Raises
    ------
    UserError
        If runners disagree on the outputs (then nothing was timed), or the process fails.
    """
    environment = {**os.environ, **dict.fromkeys(_THREAD_COUNTS, str(lanes))}
    task = {
        "contestants": [asdict(contestant) for contestant in contestants],
        "lanes": lanes,
        "rules": asdict(rules),
    }
    with temporary_folder() as folder:
        (folder / "task.json").write_text(json.dumps(task))
        command = [
            sys.executable,
            "-m",
            "runtime_ext.peers.side_by_side",
            str(folder),
            str(os.getpid()),
        ]
        with (folder / "errors.txt").open("w") as errors:
            code = _watch(command, environment, errors, progress)
        if code:
            lines = (folder / "errors.txt").read_text(errors="replace").strip().splitlines()
            why = lines[-1] if lines else f"it ended with code {code}"
            raise UserError(f"the measurement in a fresh process failed: {why}")
        result = json.loads((folder / "result.json").read_text())
    if "error" in result:
        raise UserError(result["error"])
    return Outcome(**result)


#: What the runners' libraries read when they start.
_THREAD_COUNTS = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def _watch(
    command: Sequence[str],
    environment: Mapping[str, str],
    errors: Any,
    progress: Progress | None,
) -> int:
    """Run a command, pass its progress on, and return its exit code."""
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                # Libraries may print as well.
                if line.startswith('["') and progress is not None:
                    progress(*json.loads(line))
        except BaseException:
            process.kill()
            raise
    return process.returncode


def _main(folder: Path, parent: int) -> None:
    end_with_parent(parent)
    task = json.loads((folder / "task.json").read_text())
    contestants = [Contestant(**data) for data in task["contestants"]]
    try:
        outcome = asdict(_compete(contestants, task["lanes"], Rules(**task["rules"])))
    except UserError as error:
        outcome = {"error": str(error)}
    (folder / "result.json").write_text(json.dumps(outcome))


def _compete(contestants: Sequence[Contestant], lanes: int, rules: Rules) -> Outcome:
    from runtime_ext.execution.executable import load

    (ours, *_) = [c for c in contestants if c.runner == EXECUTABLE.name]
    session = load(ours.path).session()
    inputs = session.random_inputs(0)
    session.close()
    started: dict[str, Started] = {}
    outputs: dict[str, list[Array]] = {}
    failed: dict[str, str] = {}
    for done, contestant in enumerate(contestants):
        _report("starting runners", done, len(contestants))
        runner = RUNNERS.get(contestant.runner, EXECUTABLE)
        try:
            ready = runner.start(Path(contestant.path), inputs, lanes)
            outputs[contestant.name] = ready.outputs(ready.run())
            started[contestant.name] = ready
        except Exception as error:
            if contestant.runner == EXECUTABLE.name:
                raise UserError(f"{contestant.name} cannot run: {error}") from error
            failed[contestant.name] = " ".join(str(error).split()) or repr(error)
    _report("starting runners", len(contestants), len(contestants))
    others = [c.name for c in contestants if c.runner != EXECUTABLE.name and c.name in started]
    reference = others[0] if others else ours.name
    errors = {name: output_errors(found, outputs[reference])[1] for name, found in outputs.items()}
    for name, error in errors.items():
        if not error <= LARGEST_ERROR:
            raise UserError(
                f"{name} and {reference} differ by {error:.1e} of the largest output, so nothing "
                "was timed; find out which of them is wrong with --against one runner at a time"
            )
    samples = hold_contest(
        {name: ready.run for name, ready in started.items()},
        rules,
        lambda done: _report("timing runners", done, rules.rounds),
    )
    return Outcome(samples, errors, reference, failed)


def _report(what: str, done: int, total: int) -> None:
    print(json.dumps([what, done, total]), flush=True)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]))
