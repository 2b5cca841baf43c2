"""From a model to the executable that serves the most requests a second."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvm_ios.api.destination import ExecutableOfItsOwn
from tvm_ios.api.optimizer import optimize
from tvm_ios.api.options import Options
from tvm_ios.api.served import Served, ServedWay
from tvm_ios.contest import rules
from tvm_ios.contest.verdict import faster_in_each, pooled, ratio_of
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.models.source import AnyModel
from tvm_ios.progress import Progress, silent

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from runtime_ext.peers.requests_side_by_side import Serving, Way
    from tvm_ios.api.result import Result

#: One request after another, each on all lanes: the way that all others are compared with.
IN_TURN = "in-turn"
#: The same program on one lane of each worker, and a program that was scheduled for one lane.
SIDE_BY_SIDE, ONE_LANE = "side-by-side", "one-lane"
#: Requests in flight for each lane.
IN_FLIGHT_A_LANE = 2
#: Policies that can pay on a single lane, on which nothing runs concurrently.
_POLICIES_OF_ONE_LANE = ("sequential", "ios-merge")


def optimize_throughput(
    model: AnyModel | LoadedModel,
    output: Path,
    options: Options | None = None,
    progress: Progress = silent,
) -> Result:
    """Keep the program, and the number of its workers, that serves the most requests a second.

    Three ways are compared: the program of least latency, one request after another on all lanes;
    the same program on as many workers of one lane each; and the fastest program scheduled for one
    lane, on as many workers. Requests run on several workers only if the whole 95 % interval of the
    ratio to one after another lies below one, and the median in each of three fresh processes.

    Parameters
    ----------
    model
        As of :func:`tvm_ios.api.optimize`.
    output
        A folder, or a ``.tar``.
    options
        As of :func:`tvm_ios.api.optimize`, for each program; a memory budget is that of one worker.
    progress
        Called with (phase, done, total).

    Returns
    -------
    Result
        The result for the kept program, with the ways that were compared in ``served``.

    Raises
    ------
    UserError
        As :func:`tvm_ios.api.optimize`.
    """
    from relay_passes.load import load_model
    from runtime_ext.execution.executable import Executable, load
    from runtime_ext.machine.this_machine import announce_lanes
    from runtime_ext.peers.requests_side_by_side import Way, serve_side_by_side

    ExecutableOfItsOwn(output).require_writable()
    of_all = replace(options or Options(), fallback=())
    lanes = of_all.search.lanes
    loaded = load_model(model, progress, options=of_all.search)
    with temporary_folder() as folder:
        results = {lanes: optimize(loaded, folder / "all", of_all, progress)}
        ways = {IN_TURN: Way(folder / "all", 1)}
        if lanes > 1:
            # All lanes first: TVM counts its threads once, and their number can only fall.
            announce_lanes(1)
            of_one = replace(
                of_all,
                search=of_all.search.on_lanes(1),
                policies=of_all.policies or _POLICIES_OF_ONE_LANE,
            )
            results[1] = optimize(loaded, folder / "one", of_one, progress)
            ways |= {
                SIDE_BY_SIDE: Way(folder / "all", lanes),
                ONE_LANE: Way(folder / "one", lanes),
            }
        in_flight = IN_FLIGHT_A_LANE * lanes

        def serving(names: Sequence[str]) -> Serving:
            chosen = {name: ways[name] for name in names}
            return serve_side_by_side(chosen, in_flight, rules.THROUGHPUT, progress)

        kept, servings = hold_throughput_contest(list(ways), serving)
        lanes_of = {IN_TURN: lanes, SIDE_BY_SIDE: 1, ONE_LANE: 1}
        result_of = {name: results[1 if name == ONE_LANE else lanes] for name in ways}
        rows = tuple(
            _row(name, way, lanes_of[name], result_of[name].kept, servings)
            for name, way in ways.items()
        )
        confirmed = None
        if kept != IN_TURN:
            confirmed = ratio_of(pooled([s.samples for s in servings[1:]]), kept, IN_TURN)
        served = Served(rows, kept, confirmed, in_flight)
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
    notes_of_all = dict.fromkeys(note for result in results.values() for note in result.notes)
    return replace(result_of[kept], executable=output, notes=tuple(notes_of_all), served=served)


def hold_throughput_contest(
    ways: Sequence[str], serving: Callable[[Sequence[str]], Serving]
) -> tuple[str, list[Serving]]:
    """Return the name of the way to keep, and all measurements.

    ``serving`` times ways in a fresh process. All ways are timed once, then the best beside the
    first, which is kept unless another is surely faster.
    """
    first = ways[0]
    servings = [serving(ways)]
    best = min(ways, key=lambda name: ratio_of(servings[0].samples, name, first).median)
    if best == first:
        return first, servings
    for number in range(rules.CONFIRMING_PROCESSES):
        # Alternate the order: a program that is loaded first gets other memory addresses.
        servings.append(serving((best, first) if number % 2 else (first, best)))
        if not faster_in_each(best, first, [servings[-1].samples]):
            return first, servings
    together = pooled([serving.samples for serving in servings[1:]])
    return (best if ratio_of(together, best, first).high < 1 else first), servings


def _row(name: str, way: Way, lanes: int, policy: str, servings: Sequence[Serving]) -> ServedWay:
    """Return the measurements of a way, from all processes that it ran in."""
    among = [serving for serving in servings if name in serving.samples]
    rates = [s.requests / seconds for s in among for seconds in s.samples[name]]
    latencies = [seconds for s in among for seconds in s.latencies[name]]
    p50, p99 = (float(q) for q in np.percentile(latencies, [50, 99]))
    ratio = ratio_of(pooled([s.samples for s in among]), name, IN_TURN).median
    return ServedWay(name, policy, lanes, way.workers, statistics.median(rates), p50, p99, ratio)
