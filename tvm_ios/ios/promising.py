"""Choice of the co-scheduled stages that are worth compiling before anything was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.devices.device import DeviceDescription
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.block import Block, block_key, cut_into_blocks
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.network import renumbered
from tvm_ios.ios.priced_block import PricedBlock
from tvm_ios.ios.strategies import candidate_stages
from tvm_ios.schedule.stage import Stage, Strategy

_STRATEGIES = frozenset({Strategy.CONCURRENT, Strategy.CO_SCHEDULE})


@dataclass(frozen=True, slots=True)
class PromisingStage:
    """A co-scheduled stage in all equal blocks, with the graph's unit numbers.

    ``gain`` is the estimated seconds that it saves over the same groups side by side, in all
    blocks.
    """

    twins: tuple[Stage, ...]
    gain: float


def promising_stages(
    graph: OpGraph, blocks: Sequence[int], device: DeviceDescription, pruning: Pruning
) -> tuple[PromisingStage, ...]:
    """Return the co-scheduled stages that are estimated to be no slower than concurrent ones.

    First come those of the fastest schedules of the blocks, then the others; in both the greatest
    gain comes first. The device is a GPU.
    """
    cost = AnalyticCost(device)
    first: list[PromisingStage] = []
    others: list[PromisingStage] = []
    twins: dict[str, list[Block]] = {}
    for block in cut_into_blocks(graph, blocks):
        twins.setdefault(block_key(graph, block), []).append(block)
    for same in twins.values():
        block = same[0]
        priced = PricedBlock.of(graph, block, cost, _STRATEGIES, pruning, _never)
        optimum = set(priced.solve().stages)
        for groups in priced.space.groups:
            stages = candidate_stages(graph, block.groups(groups), _STRATEGIES, _never)
            if stages[-1].strategy is not Strategy.CO_SCHEDULE:
                continue
            side_by_side, together = cost.stage_latencies(graph, stages).tolist()
            if together <= side_by_side:
                places = (dict(zip(block.units, twin.units, strict=True)) for twin in same)
                candidate = PromisingStage(
                    tuple(renumbered(stages[-1], place) for place in places),
                    (side_by_side - together) * len(same),
                )
                (first if stages[-1] in optimum else others).append(candidate)
    return (*_greatest(first), *_greatest(others))


def _greatest(stages: Iterable[PromisingStage]) -> list[PromisingStage]:
    return sorted(stages, key=lambda stage: -stage.gain)


def _never(graph: OpGraph, units: Sequence[int]) -> bool:
    """Return False: no units are merged here."""
    return False
