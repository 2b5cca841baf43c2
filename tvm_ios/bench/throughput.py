"""Compare requests a second of our program, optimised for throughput, with those of peers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_ios.api.options import Options
from tvm_ios.api.throughput import IN_FLIGHT_A_LANE
from tvm_ios.bench.material import ONNX, prepare_served
from tvm_ios.contest.outputs import Verify
from tvm_ios.contest.pairs import PairedRatio, ratio_over_processes
from tvm_ios.contest.rules import BENCH_PROCESSES, Rules
from tvm_ios.contest.verdict import ratio_of
from tvm_ios.models.source import AnyModel, ModelSource
from tvm_ios.progress import Progress, silent

if TYPE_CHECKING:
    from runtime_ext.peers.requests_side_by_side import Serving

OURS = "ours"


@dataclass(frozen=True)
class ServedResult:
    """Requests a second and waiting times of our program and of peers on one model."""

    model: str
    batch: int
    #: The way of ours that was kept, as of :class:`tvm_ios.api.throughput.ServedWay`.
    kept: str
    #: The policy of its program's schedule.
    policy: str
    #: Number of requests that ours runs at once.
    workers: int
    #: Number of requests in flight at any time.
    in_flight: int
    #: For each runner the median of samples.
    requests_a_second: Mapping[str, float]
    #: For each runner the seconds that half of all requests and 99 % of them took at most, waiting
    #: included.
    p50: Mapping[str, float]
    p99: Mapping[str, float]
    #: For each runner the number of requests.
    requests: Mapping[str, int]
    #: For each runner but ``ours`` our time divided by its time, for as many requests: below 1 ours
    #: serves more.
    ratio: Mapping[str, PairedRatio]
    #: As of :class:`tvm_ios.bench.bench.NetworkResult`.
    max_rel_error: Mapping[str, float]
    reference: str
    verified: str | None
    failed: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return plain data, with milliseconds and without ``failed``."""
        data = asdict(self)
        del data["failed"]
        for name in ("p50", "p99"):
            data[f"{name}_ms"] = {runner: s * 1e3 for runner, s in data.pop(name).items()}
        return data


def bench_throughput(
    model: AnyModel,
    against: Sequence[str],
    folder: Path,
    *,
    rules: Rules,
    options: Options | None = None,
    processes: int = BENCH_PROCESSES,
    in_flight: int | None = None,
    progress: Progress = silent,
) -> ServedResult:
    """Optimise a model for throughput, and serve its requests beside peers on as many threads.

    As :func:`tvm_ios.bench.bench.bench`, but a run is a sample of many requests, and ``in_flight``
    requests are submitted and not yet done at any time (by default two for each lane). Raise
    UserError also if a peer has no settings for many requests.
    """
    from runtime_ext.execution.executable import Executable, load
    from runtime_ext.peers.registry import available_peers
    from runtime_ext.peers.requests_side_by_side import Peers, Way, serve_side_by_side

    options = options or Options()
    search, verified = options.search, options.verify is not Verify.off
    peers = available_peers(against)
    for peer in peers:
        peer.require_server()
    lanes = search.lanes
    material = prepare_served(ModelSource.of(model), folder, options, progress=progress)
    executable = load(folder / OURS)
    assert isinstance(executable, Executable), "no other runtime's build was to be kept"
    kept, workers = executable.notes["throughput"]["kept"], executable.workers
    assert workers is not None, "the notes say it"
    in_flight = in_flight or IN_FLIGHT_A_LANE * lanes
    beside = Peers(
        [peer.name for peer in peers],
        folder / ONNX,
        lanes,
        search.precision or "float32",
        verified=verified,
    )
    ways = {OURS: Way(folder / OURS, workers)}
    servings: list[Serving] = []
    for number in range(processes):

        def of_all(what: str, done: int, total: int, number: int = number) -> None:
            progress(what, number * total + done, processes * total)

        # A sample of many requests warms up by itself.
        shared = replace(rules.shared_by(processes), warm_up=0)
        servings.append(serve_side_by_side(ways, in_flight, shared, of_all, beside))
    failed = {name: error for serving in servings for name, error in serving.failed.items()}
    runners = [name for name in servings[0].samples if all(name in s.samples for s in servings)]
    each = {name: np.concatenate([s.latencies[name] for s in servings]) for name in runners}
    return ServedResult(
        model=material.model,
        batch=material.batch,
        kept=kept,
        policy=material.kept,
        workers=workers,
        in_flight=in_flight,
        requests_a_second={
            name: statistics.median(s.requests / t for s in servings for t in s.samples[name])
            for name in runners
        },
        p50={name: float(np.percentile(each[name], 50)) for name in runners},
        p99={name: float(np.percentile(each[name], 99)) for name in runners},
        requests={name: len(each[name]) for name in runners},
        ratio={name: _ratio(servings, name) for name in runners if name != OURS},
        max_rel_error={name: max(s.errors[name] for s in servings) for name in runners},
        reference=servings[0].reference,
        verified=material.verified,
        failed=failed,
    )


def _ratio(servings: Sequence[Serving], name: str) -> PairedRatio:
    """Return the ratio of ours to a runner over all processes."""
    return ratio_over_processes([ratio_of(s.samples, OURS, name) for s in servings])
