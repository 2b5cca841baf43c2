"""Blocks as graphs of their own, with local unit numbers and a key that equal blocks share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm_ios.errors import SearchError
from tvm_ios.graph.branch_symmetry import BranchSymmetry, symmetry_of
from tvm_ios.graph.equal_branches import equal_branches
from tvm_ios.graph.op_graph import OpGraph, bits, mask_of
from tvm_ios.schedule.stage import Stage


@dataclass(frozen=True, slots=True)
class Block:
    """Some units of a graph, numbered from zero in the graph's order.

    ``units`` are their numbers in the graph; ``predecessors`` are bit sets of the block's numbers.
    """

    units: tuple[int, ...]
    predecessors: tuple[int, ...]

    @staticmethod
    def of(graph: OpGraph, mask: int) -> Block:
        """Return the block of the units in a bit set."""
        units = tuple(bits(mask))
        local = {unit: i for i, unit in enumerate(units)}
        return Block(
            units=units,
            predecessors=tuple(
                mask_of(local[p] for p in bits(graph.predecessors[unit] & mask)) for unit in units
            ),
        )

    def stage(self, stage: Stage) -> Stage:
        """Return a stage of local numbers with the graph's numbers."""
        return replace(stage, groups=self.groups(stage.groups))

    def groups(self, groups: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        """Return groups of local numbers with the graph's numbers."""
        units = self.units
        return tuple([tuple([units[unit] for unit in group]) for group in groups])


def cut_into_blocks(graph: OpGraph, masks: Sequence[int]) -> tuple[Block, ...]:
    """Return the blocks of bit sets that are in the order of execution.

    Raise SearchError if the bit sets are not a partition of the units, or a block reads from a
    later one.
    """
    done = 0
    for mask in masks:
        if mask & done or mask >> len(graph):
            raise SearchError("the blocks overlap or name units that do not exist")
        for unit in bits(mask):
            if graph.predecessors[unit] & ~(done | mask):
                raise SearchError(
                    f"the block of unit {graph.operators[unit].name!r} reads from a later block"
                )
        done |= mask
    if done != graph.all_operators:
        missing = next(bits(graph.all_operators & ~done))
        raise SearchError(f"unit {graph.operators[missing].name!r} is in no block")
    return tuple(Block.of(graph, mask) for mask in masks)


def block_key(graph: OpGraph, block: Block) -> str:
    """Return a hash that blocks share if one can take the other's schedule, unit by unit.

    It covers what every unit computes, how the units are wired, which inputs from outside they
    share and which outputs leave the block; names do not count.
    """
    inside = set(block.units)
    seen: dict[int, str] = {}
    rows: list[object] = []
    for local, unit in enumerate(block.units):
        op = graph.operators[unit]
        wires: list[object] = []
        for tensor in op.inputs:
            if tensor not in seen:
                origin = "constant" if graph.tensors[tensor].constant else "outside"
                seen[tensor] = f"{origin} {len(seen)}"
            wires.append([seen[tensor], *_type(graph, tensor)])
        leaves: list[object] = []
        for position, tensor in enumerate(op.outputs):
            seen[tensor] = f"unit {local} output {position}"
            leaving = tensor in graph.outputs or not inside.issuperset(graph.consumers[tensor])
            leaves.append([leaving, *_type(graph, tensor)])
        rows.append([op.kind, sorted(op.attrs.items()), op.flops, wires, leaves])
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def block_symmetry(graph: OpGraph, block: Block, done: int) -> BranchSymmetry | None:
    """Return the exchangeable equal branches of a block, in its numbers; None if there are none.

    ``done`` is the bit set of the units that run before the block.
    """
    classes = equal_branches(graph, mask_of(block.units), done)
    return symmetry_of(block.units, classes)


def _type(graph: OpGraph, tensor: int) -> tuple[tuple[int, ...], str]:
    return graph.tensors[tensor].shape, graph.tensors[tensor].dtype
