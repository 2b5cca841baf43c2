"""From a model to the executable that serves the most requests a second."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_ios.api.destination import ExecutableOfItsOwn
from tvm_ios.api.measured import optimize
from tvm_ios.contest import rules
from tvm_ios.contest.outputs import Verify
from tvm_ios.contest.pairs import PairedRatio
from tvm_ios.contest.verdict import faster_in_each, pooled, ratio_of
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.models.source import AnyModel
from tvm_ios.progress import Progress, silent

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.search_options import SearchOptions
    from runtime_ext.peers.requests_side_by_side import Serving, Way
    from tvm_ios.api.optimized import Optimized

#: One request after another, each on all lanes: what every other way is compared with.
IN_TURN = "in-turn"
#: The same program on one lane of each worker, and a program that was scheduled for one lane.
SIDE_BY_SIDE, ONE_LANE = "side-by-side", "one-lane"
#: Requests in flight for each lane.
IN_FLIGHT_A_LANE = 2
#: What may pay on a lane alone: nothing runs concurrently.
_POLICIES_OF_ONE_LANE = ("sequential", "ios-merge")


@dataclass(frozen=True)
class ServedWay:
    """How many requests a way serves.

    Attributes
    ----------
    way
        Its name.
    policy
        Whose schedule its program runs.
    lanes
        Those of a request.
    workers
        How many requests run at once.
    requests_a_second
        The median of samples.
    p50, p99
        Seconds that half of all requests and 99 % of them took at most, waiting included.
    ratio
        The median of the ratios of its time to that of one request after another, sample by sample.
    """

    way: str
    policy: str
    lanes: int
    workers: int
    requests_a_second: float
    p50: float
    p99: float
    ratio: float

    def to_json(self) -> dict[str, Any]:
        """Plain data, with milliseconds."""
        data = asdict(self)
        return {**data, "p50_ms": data.pop("p50") * 1e3, "p99_ms": data.pop("p99") * 1e3}


@dataclass(frozen=True)
class OptimizedThroughput:
    """What :func:`optimize_throughput` did.

    Attributes
    ----------
    ways
        All that were measured.
    kept
        The one that the executable serves requests in.
    confirmed
        Its ratio to one request after another, in fresh processes; None if that is kept.
    in_flight
        How many requests were always in flight.
    optimized
        For each number of lanes how its program was found.
    executable
        Where it went.
    """

    ways: tuple[ServedWay, ...]
    kept: str
    confirmed: PairedRatio | None
    in_flight: int
    optimized: Mapping[int, Optimized]
    executable: Path


def optimize_throughput(
    model: AnyModel | LoadedModel,
    output: Path,
    options: Callable[[int | None], SearchOptions],
    *,
    policies: Sequence[str] | None = None,
    schedule: Path | None = None,
    memory_budget: int | None = None,
    verify: Verify = Verify.onnx,
    progress: Progress | None = None,
) -> OptimizedThroughput:
    """Keep the program, and the number of its workers, that serves the most requests a second.

    Compared are the program of the least latency, one request after another on all lanes; the same
    on one lane of as many workers; and the fastest program that was scheduled for one lane,
    likewise. Requests run on several workers only if the whole 95 % interval of the ratio to one
    after another lies below one, and the median in each of three fresh processes.

    Parameters
    ----------
    model
        As of :func:`tvm_ios.api.optimize`.
    output
        A folder, or a ``.tar``.
    options
        The options of the search for so many lanes, None being as many as there are. It is called
        for one lane last: TVM counts its threads once.
    policies, schedule, memory_budget, verify
        As of :func:`tvm_ios.api.optimize`, for each program; the budget is that of one worker.
    progress
        Called with (what, done, total).

    Raises
    ------
    UserError
        As :func:`tvm_ios.api.optimize`.
    """
    from relay_passes.load import load_model
    from runtime_ext.execution.executable import Executable, load
    from runtime_ext.peers.requests_side_by_side import Way, serve_side_by_side

    ExecutableOfItsOwn(output).require_writable()
    report = progress or silent
    loaded = load_model(model, report)

    def program(options: SearchOptions, folder: Path, tried: Sequence[str] | None) -> Optimized:
        return optimize(
            loaded,
            folder,
            options=options,
            policies=tried,
            schedule=schedule,
            memory_budget=memory_budget,
            fallback=(),
            verify=verify,
            progress=report,
        )

    with temporary_folder() as folder:
        of_all = options(None)
        lanes = of_all.lanes
        optimized = {lanes: program(of_all, folder / "all", policies)}
        ways = {IN_TURN: Way(folder / "all", 1)}
        if lanes > 1:
            of_one = options(1)
            optimized[1] = program(of_one, folder / "one", policies or _POLICIES_OF_ONE_LANE)
            ways |= {
                SIDE_BY_SIDE: Way(folder / "all", lanes),
                ONE_LANE: Way(folder / "one", lanes),
            }
        in_flight = IN_FLIGHT_A_LANE * lanes

        def serving(names: Sequence[str]) -> Serving:
            chosen = {name: ways[name] for name in names}
            return serve_side_by_side(chosen, in_flight, rules.THROUGHPUT, report)

        kept, servings = hold_throughput_contest(list(ways), serving)
        lanes_of = {IN_TURN: lanes, SIDE_BY_SIDE: 1, ONE_LANE: 1}
        rows = tuple(
            _row(name, way, lanes_of[name], optimized[1 if name == ONE_LANE else lanes], servings)
            for name, way in ways.items()
        )
        confirmed = None
        if kept != IN_TURN:
            confirmed = ratio_of(pooled([s.samples for s in servings[1:]]), kept, IN_TURN)
        notes = {
            "kept": kept,
            "workers": ways[kept].workers,
            "in_flight": in_flight,
            "ways": [row.to_json() for row in rows],
            "confirmed": None if confirmed is None else asdict(confirmed),
        }
        executable = load(ways[kept].executable)
        assert isinstance(executable, Executable), "no other runtime's build was to be kept"
        replace(executable, notes={**executable.notes, "throughput": notes}).save(output)
    return OptimizedThroughput(rows, kept, confirmed, in_flight, optimized, output)


def hold_throughput_contest(
    ways: Sequence[str], serving: Callable[[Sequence[str]], Serving]
) -> tuple[str, list[Serving]]:
    """The way to keep, and what was measured: of all ways, then of the best beside the first.

    Parameters
    ----------
    ways
        Names; the first is kept unless another is surely faster.
    serving
        Times ways in a fresh process.
    """
    first = ways[0]
    servings = [serving(ways)]
    best = min(ways, key=lambda name: ratio_of(servings[0].samples, name, first).median)
    if best == first:
        return first, servings
    for number in range(rules.CONFIRMING_PROCESSES):
        # What is loaded first lies elsewhere in memory.
        servings.append(serving((best, first) if number % 2 else (first, best)))
        if not faster_in_each(best, first, [servings[-1].samples]):
            return first, servings
    together = pooled([serving.samples for serving in servings[1:]])
    return (best if ratio_of(together, best, first).high < 1 else first), servings


def _row(
    name: str, way: Way, lanes: int, program: Optimized, servings: Sequence[Serving]
) -> ServedWay:
    """What was measured of a way, in all processes that it ran in."""
    among = [serving for serving in servings if name in serving.samples]
    rates = [s.requests / seconds for s in among for seconds in s.samples[name]]
    latencies = [seconds for s in among for seconds in s.latencies[name]]
    p50, p99 = (float(q) for q in np.percentile(latencies, [50, 99]))
    ratio = ratio_of(pooled([s.samples for s in among]), name, IN_TURN).median
    return ServedWay(
        name, program.kept, lanes, way.workers, statistics.median(rates), p50, p99, ratio
    )
