"""Convert published schedules to units of this package, and read schedules of either format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
    """A schedule from a file, validated for a graph.

    ``added`` are the units that the file does not mention, such as a classifier: they run one by
    one after its last stage.
    """

    schedule: Schedule
    added: tuple[int, ...] = ()


@dataclass(frozen=True)
class PublishedFile:
    """A schedule file of IOS's published implementation, not yet fitted to a graph.

    ``name`` is that of the file, for errors. ``data`` is what IOS's ``Graph.export_config``
    returned.
    """

    name: str
    data: Mapping[str, Any] = field(repr=False)

    @property
    def policy(self) -> str:
        """The file's own name of the schedule: the network and how it was searched."""
        return str(self.data["name"])

    def fitted(self, graph: OpGraph) -> GivenSchedule:
        """Return the schedule's stages over the units of a graph of the same network, of any batch.

        Raise ScheduleError if it is malformed, or a node of it, which is named, is no unit of the
        graph.
        """
        try:
            published = published_schedule(self.data)
            places = place(published, graph)
        except PlacingError as error:
            raise ScheduleError(f"{self.name} does not fit: {error}") from error
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise ScheduleError(f"{self.name} lacks or misstates {error}") from error
        stages = tuple(_stages(published, places, graph, self.name))
        placed = {unit for units in places.values() for unit in units}
        added = tuple(unit for unit in range(len(graph)) if unit not in placed)
        alone = tuple(Stage(Strategy.CONCURRENT, ((unit,),)) for unit in added)
        schedule = Schedule(graph.fingerprint, stages + alone, self.policy, batch=graph.batch)
        schedule.validate(graph)
        return GivenSchedule(schedule, added)


def read_schedule(path: Path | str, graph: OpGraph) -> GivenSchedule:
    """Read a schedule of either format for a graph; raise ScheduleError if it does not fit."""
    read = schedule_of_file(path)
    if isinstance(read, PublishedFile):
        return read.fitted(graph)
    read.validate(graph)
    return GivenSchedule(read)


def schedule_of_file(path: Path | str) -> Schedule | PublishedFile:
    """Read a file of either format; raises as :meth:`Schedule.load`."""
    try:
        return schedule_of_text(Path(path).read_bytes(), str(path))
    except OSError as error:
        raise ScheduleError(f"cannot read the schedule {path}: {error}") from error


def schedule_of_text(text: bytes | str, name: str = "the schedule") -> Schedule | PublishedFile:
    """Parse the text of a file of either format; ``name`` is used in errors."""
    try:
        data = json_object(text)
    except JsonError as error:
        raise ScheduleError(f"cannot read the schedule {name}: {error}") from error
    return PublishedFile(name, data) if is_published(data) else Schedule.from_text(text, name)


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
