"""The plan of instances: units that run in parts, with their split, order and lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

from tvm_ios.files.plain_data import read_as
from tvm_ios.graph.op_graph import OpGraph, bits, mask_of
from tvm_ios.schedule.stage import Stage, Strategy


@dataclass(frozen=True, slots=True)
class SplitSubGraph:
    """A sub-graph whose outputs are computed in parts, its instances.

    ``factor`` is the number of parts; they are equal, but the last may have fewer rows. ``axes``
    has the split axis of each tensor that units outside read or that is a model output, in the
    order of :func:`subgraph_outputs`.
    """

    units: tuple[int, ...]
    factor: int
    axes: tuple[int, ...]

    @property
    def of_batch(self) -> bool:
        """Whether the parts are images of a batch, which share kernels."""
        return not any(self.axes)


@dataclass(frozen=True, slots=True)
class PlacedInstance:
    """A part of a sub-graph, and the lane that runs it.

    ``lane`` is None if all lanes share the instance, stage by stage.
    """

    subgraph: int
    part: int
    lane: int | None


@dataclass(frozen=True, slots=True)
class InstancePlan:
    """The instances of a schedule: GraphTurbo's splits, order and placement.

    The stages that hold a sub-graph's units define how each of its instances runs them. A maximal
    run of such stages is a *region*, where its instances run in the plan's order. ``subgraphs`` are
    in topological order. ``order`` has all instances; each lane runs its own in this order.
    """

    subgraphs: tuple[SplitSubGraph, ...]
    order: tuple[PlacedInstance, ...]

    @property
    def lanes(self) -> int:
        """Number of lanes that the plan uses."""
        return max((p.lane + 1 for p in self.order if p.lane is not None), default=1)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return {
            "subgraphs": [asdict(subgraph) for subgraph in self.subgraphs],
            "order": [astuple(placed) for placed in self.order],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> InstancePlan:
        """Read what :meth:`to_json` wrote.

        Raise KeyError, TypeError or ValueError for other data.
        """
        return read_as(InstancePlan, data)


def regions(plan: InstancePlan, stages: Sequence[Stage]) -> list[list[int]]:
    """Return runs of stage numbers: single stages without instances, and regions."""
    owned = {unit for subgraph in plan.subgraphs for unit in subgraph.units}
    runs: list[list[int]] = []
    inside = False
    for number, stage in enumerate(stages):
        was_inside, inside = inside, stage.groups[0][0] in owned
        if inside and was_inside:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def subgraph_outputs(graph: OpGraph, units: Sequence[int]) -> tuple[int, ...]:
    """Return the tensors of these units that others read or that are model outputs, by unit."""
    inside = mask_of(units)
    return tuple(
        tensor
        for unit in units
        for tensor in graph.operators[unit].outputs
        if tensor in graph.outputs or mask_of(graph.consumers[tensor]) & ~inside
    )


def fault_of(
    graph: OpGraph, stages: Sequence[Stage], kernels: Mapping[int, str], plan: InstancePlan
) -> str | None:
    """Return the first rule that a plan violates, or None.

    ``stages`` and ``kernels`` are those of a schedule, and valid. Whether instances run after those
    that they read from is checked elsewhere, since it depends on the units' operators.
    """
    owner: dict[int, int] = {}
    for number, subgraph in enumerate(plan.subgraphs):
        fault = _fault_of_units(graph, subgraph, owner) or _fault_of_split(graph, subgraph)
        if fault:
            return f"sub-graph {number} {fault}"
        owner |= dict.fromkeys(subgraph.units, number)
    return (
        _fault_of_kernels(graph, kernels, plan)
        or _fault_of_order(graph, plan, owner)
        or _fault_of_stages(stages, owner)
        or _fault_of_regions(stages, plan, owner)
    )


def _fault_of_units(
    graph: OpGraph, subgraph: SplitSubGraph, owner: Mapping[int, int]
) -> str | None:
    if not subgraph.units:
        return "has no units"
    if list(subgraph.units) != sorted(set(subgraph.units)):
        return "does not name its units in ascending order, each once"
    for unit in subgraph.units:
        if unit >= len(graph):
            return f"names unit {unit}, which does not exist"
        if unit in owner:
            return f"names unit {graph.operators[unit].name!r}, which is in sub-graph {owner[unit]}"
    return None


def _fault_of_split(graph: OpGraph, subgraph: SplitSubGraph) -> str | None:
    if subgraph.factor < 2:
        return f"is split into {subgraph.factor} instances: leave it out"
    outputs = subgraph_outputs(graph, subgraph.units)
    if len(outputs) != len(subgraph.axes):
        return f"names {len(subgraph.axes)} axes for its {len(outputs)} outputs"
    for tensor, axis in zip(outputs, subgraph.axes, strict=True):
        output = graph.tensors[tensor]
        if axis >= len(output.shape):
            return f"splits axis {axis} of {output.name!r}, which has {len(output.shape)}"
        extent, factor = output.shape[axis], subgraph.factor
        if axis == 0 and extent % factor:
            return f"is split by {factor}, which does not divide the batch of {extent}"
        if -(-extent // factor) * (factor - 1) >= extent:
            return f"is split by {factor} along axis {axis} of {output.name!r}, which has {extent}"
    return None


def _fault_of_kernels(graph: OpGraph, kernels: Mapping[int, str], plan: InstancePlan) -> str | None:
    for number, subgraph in enumerate(plan.subgraphs):
        for unit in () if subgraph.of_batch else kernels.keys() & set(subgraph.units):
            return (
                f"unit {graph.operators[unit].name!r} of sub-graph {number} cannot have a kernel "
                "of its own: its parts are no images of a batch"
            )
    return None


def _fault_of_order(graph: OpGraph, plan: InstancePlan, owner: Mapping[int, int]) -> str | None:
    for number, subgraph in enumerate(plan.subgraphs):
        for unit in subgraph.units:
            for source in bits(graph.predecessors[unit]):
                if owner.get(source, number) > number:
                    return f"sub-graph {number} reads from sub-graph {owner[source]} after it"
    seen: set[tuple[int, int]] = set()
    for place in plan.order:
        if place.subgraph >= len(plan.subgraphs):
            return f"the order names sub-graph {place.subgraph}, which does not exist"
        which = f"instance {place.part} of sub-graph {place.subgraph}"
        if place.part >= plan.subgraphs[place.subgraph].factor:
            return f"the order names {which}, which does not exist"
        if (place.subgraph, place.part) in seen:
            return f"the order names {which} twice"
        seen.add((place.subgraph, place.part))
    for number, subgraph in enumerate(plan.subgraphs):
        for part in range(subgraph.factor):
            if (number, part) not in seen:
                return f"the order lacks instance {part} of sub-graph {number}"
    return None


def _fault_of_stages(stages: Sequence[Stage], owner: Mapping[int, int]) -> str | None:
    for number, stage in enumerate(stages):
        owners = {owner.get(unit) for group in stage.groups for unit in group}
        if owners == {None}:
            continue
        if len(owners) > 1:
            return f"stage {number} has units of a sub-graph and others"
        (subgraph,) = owners
        if stage.strategy is Strategy.CO_SCHEDULE:
            return f"stage {number} co-schedules units of sub-graph {subgraph}, which differ"
        if stage.strategy is Strategy.STREAMS:
            return f"stage {number} has units of sub-graph {subgraph} on streams"
    return None


def _fault_of_regions(
    stages: Sequence[Stage], plan: InstancePlan, owner: Mapping[int, int]
) -> str | None:
    home: dict[int, int] = {}
    for region, numbers in enumerate(regions(plan, stages)):
        for number in numbers:
            subgraph = owner.get(stages[number].groups[0][0])
            if subgraph is not None and home.setdefault(subgraph, region) != region:
                return f"stages without instances stand between those of sub-graph {subgraph}"
    return None
