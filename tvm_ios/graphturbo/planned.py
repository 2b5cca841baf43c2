"""Instances in schedule files: written from a partition, and read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tvm_ios.graph.op_graph import OpGraph, bits, mask_of
from tvm_ios.graphturbo.dimensions import Dimensions
from tvm_ios.graphturbo.footprint import exits
from tvm_ios.graphturbo.grouping import SubGraph
from tvm_ios.graphturbo.instances import Instances, split_into_instances
from tvm_ios.graphturbo.lanes import LanePlace, place_after
from tvm_ios.graphturbo.layers import Layers, unit_layers
from tvm_ios.graphturbo.rows import cuts_rows
from tvm_ios.graphturbo.split_info import Split
from tvm_ios.schedule.instance_plan import InstancePlan, PlacedInstance, SplitSubGraph, regions
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import Stage, Strategy


def planned_schedule(
    units: OpGraph,
    instances: Instances,
    order: Sequence[int],
    places: Sequence[LanePlace],
    unit_order: Callable[[int], Iterable[int]] = bits,
) -> Schedule:
    """Return the schedule that runs split sub-graphs in instances, and all others unit by unit.

    The layers of the instances are units. ``places`` are those of the instances on lanes.
    ``unit_order`` orders a sub-graph's units, which are given as a bit set.
    """
    members = [tuple(bits(subgraph.layers)) for subgraph in instances.subgraphs]
    regions_of = _regions(units, instances, members)
    new: dict[int, int] = {}
    home: dict[int, int] = {}
    stages: list[Stage] = []
    for region, subgraphs in enumerate(regions_of):
        for number in subgraphs:
            stages += [
                Stage(Strategy.CONCURRENT, ((unit,),))
                for unit in unit_order(instances.subgraphs[number].layers)
            ]
            if instances.subgraphs[number].factor > 1:
                new[number], home[number] = len(new), region
    split = [i for i in order if instances.instances[i].subgraph in new]
    split.sort(key=lambda i: home[instances.instances[i].subgraph])
    plan = InstancePlan(
        tuple(
            SplitSubGraph(members[n], s.factor, _axes(instances, s))
            for n in new
            if (s := instances.subgraphs[n])
        ),
        tuple(
            PlacedInstance(new[i.subgraph], i.part, places[number].lane)
            for number in split
            if (i := instances.instances[number])
        ),
    )
    return Schedule(
        units.fingerprint,
        tuple(stages),
        "graphturbo",
        batch=units.batch,
        instances=plan if plan.subgraphs else None,
    )


def _axes(instances: Instances, subgraph: SubGraph) -> tuple[int, ...]:
    assert subgraph.split is not None
    axes = subgraph.split.axes
    return tuple(axes[tensor] for tensor in exits(instances.layers, subgraph.layers))


def _regions(
    units: OpGraph, instances: Instances, members: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Return sub-graphs in an order with few changes between split ones and others."""
    masks = [subgraph.layers for subgraph in instances.subgraphs]
    reads = [
        mask_of(p for u in numbers for p in bits(units.predecessors[u])) for numbers in members
    ]
    left, done = list(range(len(masks))), 0
    subgraphs_of: list[list[int]] = []
    splitting = True
    while left:
        run: list[int] = []
        for number in left:
            is_split = instances.subgraphs[number].factor > 1
            if is_split == splitting and not reads[number] & ~(done | masks[number]):
                run.append(number)
                done |= masks[number]
        left = [number for number in left if masks[number] & ~done]
        if run:
            subgraphs_of.append(run)
        splitting = not splitting
    return subgraphs_of


@dataclass(frozen=True)
class Planned:
    """The instances that a schedule runs, of a graph of operators."""

    #: Units outside of its sub-graphs are sub-graphs of one instance.
    instances: Instances
    #: The order of all instances.
    order: tuple[int, ...]
    #: For each instance the lane that its own units run on, or None.
    lanes: tuple[int | None, ...]
    #: Runs of the schedule's stages, by number, each with its instances in their order.
    regions: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

    def phases(self, instances: Sequence[int]) -> dict[int, int]:
        """Return the phase of each instance of a region.

        In even phases lanes run instances of their own, in odd ones all share one after another;
        phases follow each other.
        """
        places: dict[int, LanePlace] = {}
        for instance in instances:
            sources = bits(self.instances.predecessors[instance])
            before = [places[source] for source in sources if source in places]
            places[instance] = place_after(before, self.lanes[instance])
        return {instance: place.phase for instance, place in places.items()}

    def merged(self, schedule: Schedule) -> list[tuple[int, ...]]:
        """Return the units of each stage of the schedule that instances merge."""
        split = mask_of(
            unit for s in self.instances.subgraphs if s.split for unit in bits(s.layers)
        )
        merging = (s for s in schedule.stages if s.strategy is Strategy.MERGE)
        return [stage.units for stage in merging if split & stage.mask]


def planned_instances(graph: OpGraph, units: OpGraph, schedule: Schedule) -> Planned:
    """Return the instances of a valid schedule that :func:`planned_schedule`, or a person, wrote.

    Raise ScheduleError if an instance runs before one that it reads from, or a sub-graph cannot be
    split so.
    """
    plan = schedule.instances
    assert plan is not None
    layers = unit_layers(graph, units)
    owner = {unit: n for n, subgraph in enumerate(plan.subgraphs) for unit in subgraph.units}
    subgraphs: list[SubGraph] = []
    placed: list[tuple[tuple[int, ...], list[tuple[int, int]]]] = []
    lane_of: dict[tuple[int, int], int | None] = {}
    names: dict[tuple[int, int], str] = {}
    for stages in regions(plan, schedule.stages):
        region_units = [unit for stage in stages for unit in schedule.stages[stage].units]
        region_keys: list[tuple[int, int]] = []
        if region_units[0] not in owner:
            for unit in region_units:
                region_keys.append((len(subgraphs), 0))
                lane_of[region_keys[-1]] = None
                names[region_keys[-1]] = f"unit {units.operators[unit].name!r}"
                subgraphs.append(SubGraph(1 << unit, None))
        else:
            new: dict[int, int] = {}
            for number in sorted({owner[unit] for unit in region_units}):
                new[number] = len(subgraphs)
                subgraphs.append(_subgraph(layers, plan.subgraphs[number]))
            for p in plan.order:
                if p.subgraph in new:
                    region_keys.append((new[p.subgraph], p.part))
                    lane_of[region_keys[-1]] = p.lane
                    names[region_keys[-1]] = f"instance {p.part} of sub-graph {p.subgraph}"
        placed.append((tuple(stages), region_keys))
    _require_parts(layers, subgraphs, names)
    instances = split_into_instances(layers, subgraphs)
    keys = [(instance.subgraph, instance.part) for instance in instances.instances]
    number_of = {key: number for number, key in enumerate(keys)}
    numbered = tuple((s, tuple(number_of[key] for key in region_keys)) for s, region_keys in placed)
    order = tuple(number for _, region_keys in numbered for number in region_keys)
    done = 0
    for number in order:
        for source in bits(instances.predecessors[number] & ~done):
            raise ScheduleError(
                f"{names[keys[number]]} runs before {names[keys[source]]}, which it reads from"
            )
        done |= 1 << number
    return Planned(instances, order, tuple(lane_of[key] for key in keys), numbered)


def _subgraph(layers: Layers, split: SplitSubGraph) -> SubGraph:
    mask = mask_of(split.units)
    axes = dict(zip(exits(layers, mask), split.axes, strict=True))
    return SubGraph(mask, Split(split.factor, 0, split.axes[0], axes, 0))


def _require_parts(
    layers: Layers, subgraphs: Sequence[SubGraph], names: Mapping[tuple[int, int], str]
) -> None:
    """Require that sub-graphs are split along the batch, or rows that can be split, or raise."""
    dimensions = Dimensions(layers.graph)
    for number, subgraph in enumerate(subgraphs):
        if subgraph.split is None:
            continue
        axes = subgraph.split.axes
        tensor, axis = next(iter(axes.items()))
        dimension = dimensions.of(tensor)[axis]
        along = all(dimensions.matching_axis(dimension, t) == a for t, a in axes.items())
        rows = [op for layer in bits(subgraph.layers) for op in layers.members[layer]]
        rows = [op for op in rows if axis and not cuts_rows(dimensions, dimension, op)]
        if not along or axis not in (0, 2) or rows:
            what = layers.graph.tensors[tensor].name
            name = names[number, 0].removeprefix("instance 0 of ")
            raise ScheduleError(
                f"{name} cannot be split along axis {axis} of {what!r}: only a batch and rows of "
                "images can"
            )
