"""Ways to serve many requests of one model, compared and then timed in turn, in a fresh process.

``python -m runtime_ext.peers.requests_side_by_side PARENT`` is the fresh process; see
:mod:`runtime_ext.fresh_process` for how it is told what to do and what it prints.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from runtime_ext.execution.executable import Executable, load
from runtime_ext.execution.request_load import serve
from runtime_ext.execution.session_pool import Request, Result, SessionPool
from runtime_ext.fresh_process import end_with_parent, report, run_fresh_process
from tvm_ios.contest.rounds import Samples, run_in_turn
from tvm_ios.contest.rules import Rules
from tvm_ios.errors import UserError
from tvm_ios.progress import Progress, silent

#: A sample lasts about so long, so that the last requests, beside which fewer run, weigh little.
_SAMPLE_SECONDS = 0.3
_MOST_REQUESTS = 400
_DIFFERENT_REQUESTS = 4


@dataclass(frozen=True)
class Way:
    """A way to serve requests.

    Attributes
    ----------
    executable
        Where the program is.
    workers
        How many requests run at once; one alone runs on all lanes of the program.
    """

    executable: Path
    workers: int


@dataclass(frozen=True)
class Serving:
    """How many requests ways serve.

    Attributes
    ----------
    samples
        For each way the seconds of each sample; the i-th ones of all were taken in turn.
    latencies
        For each way the seconds of every request of these samples.
    requests
        How many a sample has.
    """

    samples: Samples
    latencies: Mapping[str, Sequence[float]]
    requests: int


def serve_side_by_side(
    ways: Mapping[str, Way], in_flight: int, rules: Rules, progress: Progress = silent
) -> Serving:
    """Compare and time ways in a fresh process.

    Parameters
    ----------
    ways
        Of one model, by name.
    in_flight
        How many requests are always submitted and not yet done.
    rules
        How long.

    Raises
    ------
    UserError
        If a way gives other outputs than the session of its executable, or the process fails.
    """
    task = {
        "ways": {name: [str(way.executable), way.workers] for name, way in ways.items()},
        "in_flight": in_flight,
        "rules": asdict(rules),
    }
    command = [sys.executable, "-m", "runtime_ext.peers.requests_side_by_side", str(os.getpid())]
    result = run_fresh_process(command, task, {"TVM_NUM_THREADS": "1"}, progress)
    if "error" in result:
        raise UserError(result["error"])
    return Serving(**result)


def _main(parent: int) -> None:
    end_with_parent(parent)
    task = json.loads(sys.stdin.readline())
    ways = {name: Way(Path(path), workers) for name, (path, workers) in task["ways"].items()}
    try:
        result = asdict(_compete(ways, task["in_flight"], Rules(**task["rules"])))
    except UserError as error:
        result = {"error": str(error)}
    print(json.dumps(result))


def _compete(ways: Mapping[str, Way], in_flight: int, rules: Rules) -> Serving:
    with ExitStack() as opened:
        pools: dict[str, SessionPool] = {}
        requests: list[dict[str, Any]] = []
        seconds = math.inf
        for name, way in ways.items():
            executable = load(way.executable)
            assert isinstance(executable, Executable), "others' builds have one way"
            session = opened.enter_context(closing(executable.session()))
            requests = requests or [session.random_inputs(n) for n in range(_DIFFERENT_REQUESTS)]
            pools[name] = session.pool(way.workers)
            _require_same(name, session, pools[name], requests)
            seconds = min(
                seconds, serve(pools[name].submit, requests, in_flight, in_flight).seconds
            )
        wanted = math.ceil(_SAMPLE_SECONDS / seconds) * in_flight
        count = max(2 * in_flight, min(_MOST_REQUESTS, wanted))
        latencies: dict[str, list[Sequence[float]]] = {name: [] for name in ways}

        def runner(name: str) -> Callable[[], float]:
            def run() -> float:
                served = serve(pools[name].submit, requests, count, in_flight)
                latencies[name].append(served.latencies)
                return served.seconds

            return run

        samples = run_in_turn(
            {name: runner(name) for name in ways},
            rules,
            lambda done: report("serving requests", done, rules.rounds),
        )
    # The first runs are not counted.
    counted = {name: latencies[name][-len(samples[name]) :] for name in ways}
    return Serving(
        samples, {name: [s for sample in counted[name] for s in sample] for name in ways}, count
    )


def _require_same(name: str, session: Any, pool: SessionPool, requests: Sequence[Request]) -> None:
    """Refuse workers whose outputs differ from those of the session itself in a single bit."""
    results: list[Result] = pool.run_many(requests)
    for request, result in zip(requests, results, strict=True):
        session.run(**request)
        for port in session.outputs:
            if not np.array_equal(result[port.name], session.get_output(port.name), equal_nan=True):
                raise UserError(
                    f"output {port.name!r} of {name} differs from that of a single request: this "
                    "is a fault of tvm-ios, please report it"
                )


if __name__ == "__main__":
    _main(int(sys.argv[1]))
