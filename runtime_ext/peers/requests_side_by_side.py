"""Compare ways to serve many requests of one model, then time them in turn, in a fresh process.

``python -m runtime_ext.peers.requests_side_by_side PARENT`` is the fresh process; see
:mod:`runtime_ext.fresh_process` for how it gets its task and reports its result.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from runtime_ext.execution.request_load import serve
from runtime_ext.execution.session_pool import Request, Result, SessionPool
from runtime_ext.fresh_process import end_with_parent, report, run_fresh_process
from runtime_ext.peers.model_files import ModelFiles
from runtime_ext.peers.peer import Submit
from runtime_ext.peers.registry import serve_peers
from runtime_ext.torch_later import import_torch_later
from tvm_ios.contest.outputs import difference, output_errors
from tvm_ios.contest.rounds import Samples, run_in_turn
from tvm_ios.contest.rules import Rules
from tvm_ios.contest.tolerance import rounds, tolerance
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.files.plain_data import read_as
from tvm_ios.progress import Progress, silent
from tvm_ios.schedule.first_difference import kinds

#: A sample lasts about so long, so that the last requests, beside which fewer run, weigh little.
_SAMPLE_SECONDS = 0.3
_MOST_REQUESTS = 400
_DIFFERENT_REQUESTS = 4


@dataclass(frozen=True)
class Way:
    """An executable that serves requests on a number of workers, each one request at a time.

    A single worker runs on all lanes of the program.
    """

    executable: Path
    workers: int


@dataclass(frozen=True)
class Serving:
    """The throughput and latencies of ways to serve requests."""

    #: For each way the seconds of each sample; the i-th ones of all were taken in turn.
    samples: Samples
    #: For each way the seconds of every request of these samples.
    latencies: Mapping[str, Sequence[float]]
    #: Number of requests of a sample.
    requests: int
    #: For each way the largest difference to the reference over all outputs, relative to the
    #: output's largest value; only beside peers.
    errors: Mapping[str, float] = field(default_factory=dict[str, float])
    #: The way whose outputs the others were compared with: that of the first peer, or else the
    #: first of ours.
    reference: str = ""
    #: Peers that could not serve, with a sentence each.
    failed: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Peers:
    """Peers that serve the same requests beside our executables."""

    #: Names in :mod:`runtime_ext.peers.registry`.
    names: Sequence[str]
    #: The model that they read, without the tail if our executables have one.
    onnx: Path
    #: Threads of each.
    lanes: int
    #: The precision of the programs, and of peers that have it; outputs may differ accordingly.
    precision: str = "float32"
    #: Whether nothing is timed if outputs differ by more.
    verified: bool = True


def serve_side_by_side(
    ways: Mapping[str, Way],
    in_flight: int,
    rules: Rules,
    progress: Progress = silent,
    peers: Peers | None = None,
) -> Serving:
    """Compare and time ways of one model, and peers, in a fresh process.

    ``in_flight`` requests are always submitted and not yet done. Raise UserError if a way has other
    outputs than the session of its executable, or than the peers, or the process fails.
    """
    task = {
        "ways": {name: asdict(way) for name, way in ways.items()},
        "in_flight": in_flight,
        "rules": asdict(rules),
        "peers": peers and asdict(peers),
    }
    command = [sys.executable, "-m", "runtime_ext.peers.requests_side_by_side", str(os.getpid())]
    result = run_fresh_process(command, task, {"TVM_NUM_THREADS": "1"}, progress)
    if "error" in result:
        raise UserError(result["error"])
    return Serving(**result)


def _main(parent: int) -> None:
    end_with_parent(parent)
    import_torch_later()
    task = json.loads(sys.stdin.readline())
    ways = {name: read_as(Way, way) for name, way in task["ways"].items()}
    peers = task["peers"] and read_as(Peers, task["peers"])
    try:
        result = asdict(_compete(ways, task["in_flight"], read_as(Rules, task["rules"]), peers))
    except UserError as error:
        result = {"error": str(error)}
    print(json.dumps(result))


def _compete(ways: Mapping[str, Way], in_flight: int, rules: Rules, peers: Peers | None) -> Serving:
    from runtime_ext.execution.executable import Executable, load

    with ExitStack() as opened:
        servers: dict[str, Submit] = {}
        requests: list[dict[str, Any]] = []
        results: dict[str, list[Array]] = {}
        quantised = False
        for name, way in ways.items():
            executable = load(way.executable)
            assert isinstance(executable, Executable), "others' builds have one way"
            quantised = quantised or rounds(kinds(executable.schedule.get("graph", {})))
            # Peers have no tail.
            whole = executable.session if peers is None else executable.program_session
            session = opened.enter_context(closing(whole()))
            requests = requests or [session.random_inputs(n) for n in range(_DIFFERENT_REQUESTS)]
            pool = session.pool(way.workers)
            _require_same(name, session, pool, requests)
            result = pool.submit(requests[0]).result()
            results[name] = [result[port.name] for port in session.outputs]
            servers[name] = pool.submit
        failed: dict[str, str] = {}
        errors: dict[str, float] = {}
        reference = next(iter(ways))
        if peers is not None:
            network = ModelFiles(
                requests[0], peers.lanes, peers.onnx, None, None, precision=peers.precision
            )
            started, failed = serve_peers(peers.names, network, in_flight, opened)
            servers |= started
            reference = next(iter(started), reference)
            results |= {name: submit(requests[0]).result() for name, submit in started.items()}
            errors = _errors(results, reference, peers, quantised=quantised)
        seconds = min(serve(s, requests, in_flight, in_flight).seconds for s in servers.values())
        wanted = math.ceil(_SAMPLE_SECONDS / seconds) * in_flight
        count = max(2 * in_flight, min(_MOST_REQUESTS, wanted))
        latencies: dict[str, list[Sequence[float]]] = {name: [] for name in servers}

        def runner(name: str) -> Callable[[], float]:
            def run() -> float:
                served = serve(servers[name], requests, count, in_flight)
                latencies[name].append(served.latencies)
                return served.seconds

            return run

        samples = run_in_turn(
            {name: runner(name) for name in servers},
            rules,
            lambda done: report("serving requests", done, rules.rounds),
        )
    # The first runs are not counted.
    counted = {name: latencies[name][-len(samples[name]) :] for name in servers}
    each = {name: [s for sample in counted[name] for s in sample] for name in servers}
    return Serving(samples, each, count, errors, reference, failed)


def _errors(
    results: Mapping[str, Sequence[Array]], reference: str, peers: Peers, *, quantised: bool
) -> dict[str, float]:
    """Return the largest relative difference of each way's outputs to the reference's.

    If ``peers.verified``, raise UserError if one is more than rounding.
    """
    expected = results[reference]
    if peers.verified:
        limit = tolerance(peers.precision, expected, quantised=quantised)
        for name, outputs in results.items():
            if how := difference(outputs, expected, limit):
                raise UserError(f"{name} and {reference} differ {how}, so nothing was timed")
    return {name: output_errors(outputs, expected)[1] for name, outputs in results.items()}


def _require_same(name: str, session: Any, pool: SessionPool, requests: Sequence[Request]) -> None:
    """Require that workers' outputs equal those of the session itself in every bit."""
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
