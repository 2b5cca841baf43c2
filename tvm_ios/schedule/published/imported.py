"""A published schedule as one of our units, and schedules of either format from a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tvm_ios.files.json_text import JsonError, json_object
from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.published.nodes import PublishedSchedule, is_published, published_schedule
from tvm_ios.schedule.published.placing import PlacingError, place
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import Stage, Strategy


class GivenSchedule(NamedTuple):
    """A schedule of a file.

    Attributes
    ----------
    schedule
        Of the graph that it was read for; validated.
    added
        Units that the file says nothing of, such as a classifier: they run one by one after its
        last stage.
    """

    schedule: Schedule
    added: tuple[int, ...] = ()


def read_schedule(path: Path | str, graph: OpGraph) -> GivenSchedule:
    """Read a schedule for a graph of units, of ours or of IOS's published implementation.

    Raises
    ------
    ScheduleError
        If the file is neither, or its schedule is for another graph.
    """
    try:
        data = json_object(Path(path).read_bytes())
    except (OSError, JsonError) as error:
        raise ScheduleError(f"cannot read the schedule {path}: {error}") from error
    return schedule_of_json(data, graph, str(path))


def schedule_of_json(data: Mapping[str, Any], graph: OpGraph, name: str) -> GivenSchedule:
    """The same of what was parsed; ``name`` is for errors."""
    if is_published(data):
        return import_published(data, graph, name)
    schedule = Schedule.of_data(data, name)
    schedule.validate(graph)
    return GivenSchedule(schedule)


def import_published(data: Mapping[str, Any], graph: OpGraph, name: str) -> GivenSchedule:
    """The stages of a published schedule over units of ours.

    Parameters
    ----------
    data
        What IOS's ``Graph.export_config`` gave, parsed.
    graph
        The same network as units, with any batch.
    name
        Of the file, for errors.

    Raises
    ------
    ScheduleError
        If it is malformed, or a node of it is no unit of the graph, which is named.
    """
    try:
        published = published_schedule(data)
        places = place(published, graph)
    except PlacingError as error:
        raise ScheduleError(f"{name} does not fit: {error}") from error
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise ScheduleError(f"{name} lacks or misstates {error}") from error
    stages = list(_stages(published, places, graph, name))
    placed = {unit for units in places.values() for unit in units}
    added = tuple(unit for unit in range(len(graph)) if unit not in placed)
    schedule = Schedule(
        graph.fingerprint,
        (*stages, *(Stage(Strategy.CONCURRENT, ((unit,),)) for unit in added)),
        published.name,
        batch=graph.batch,
    )
    schedule.validate(graph)
    return GivenSchedule(schedule, added)


def _stages(
    published: PublishedSchedule, places: Mapping[str, tuple[int, ...]], graph: OpGraph, name: str
) -> Iterator[Stage]:
    for block in published.blocks:
        for groups in block.stages:
            for node in (node for group in groups for node in group):
                if node not in places:
                    raise ScheduleError(f"{name} has a stage of node {node}, which it lacks")
            merged = [n for group in groups for n in group if len(places[n]) > 1]
            if not merged:
                units = (tuple(u for n in group for u in places[n]) for group in groups)
                yield Stage(Strategy.CONCURRENT, tuple(units))
                continue
            if groups != ((merged[0],),):
                raise ScheduleError(f"{name} runs the merged node {merged[0]} beside others")
            units = places[merged[0]]
            if not mergeable(graph, units):
                names = ", ".join(repr(graph.operators[unit].name) for unit in units)
                raise ScheduleError(f"{name} merges {names}, which cannot be one convolution here")
            yield Stage(Strategy.MERGE, tuple((unit,) for unit in sorted(units)))
