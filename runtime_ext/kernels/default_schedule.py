"""A plain CPU schedule of any TVM function: parallel tiles, and vectors along rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import gcd, prod
from typing import Any

import tvm
from tvm import s_tir
from tvm.sym import detect_linear_equation

from runtime_ext.kernels.cut import largest_divisor

#: Enough tiles for the lanes.
_TILES = 32
#: Elements of the widest vectors.
_VECTOR = 16
#: Up to this many sums of one element each are unrolled by LLVM, which then vectorises them.
_UNROLLED = 16
#: Kinds of iterations of blocks.
_SPATIAL, _REDUCTION = 0, 2


def default_schedule(function: Any) -> Any:
    """Parallelise the outer spatial loops of every block of a PrimFunc; inline scalars.

    Elements are computed as TVM does by default, in the same order; but a long sum along rows
    becomes several partial sums, as a sequential one is slow and loses small terms.
    """
    schedule = s_tir.Schedule(function.with_attr("global_symbol", "main"))
    root = schedule.get_sblock("root")
    root_block: Any = schedule.get(root)
    numbers = [buffer for buffer in root_block.alloc_buffers if not len(buffer.shape)]
    for block in schedule.get_child_blocks(root):
        block_node: Any = schedule.get(block)
        if not len(block_node.reads) and any(
            block_node.writes[0].source.same_as(b) for b in numbers
        ):
            schedule.compute_inline(block)
    for block in schedule.get_child_blocks(root):
        # Loops that someone scheduled already stay as they are.
        with suppress(s_tir.ScheduleError):
            _schedule_block(schedule, block)
    return schedule.mod["main"]


def _schedule_block(schedule: Any, block: Any) -> None:
    """Fuse the fewest outer loops that give enough tiles into one parallel loop.

    The others stay apart: where indices are quotients and remainders of a fused loop's, LLVM does
    not vectorise. Long sums become sums of vectors.
    """
    loops: list[Any] = schedule.get_loops(block)
    node: Any = schedule.get(block)
    kinds = [int(iter_var.iter_type) for iter_var in node.iter_vars]
    spatial = next((i for i, kind in enumerate(kinds) if kind != _SPATIAL), len(kinds))
    if len(loops) != len(kinds):
        return
    open_extents = [schedule.get(loop).extent for loop in loops]
    if not all(isinstance(extent, tvm.tirx.IntImm) for extent in open_extents):
        _schedule_open_block(schedule, block, spatial)
        return
    extents = list(map(int, open_extents))
    in_rows = spatial > 1 and extents[spatial - 1] > 1
    in_rows = in_rows and _is_in_rows(node, node.iter_vars[spatial - 1].var)
    is_long = set(kinds[spatial:]) == {_REDUCTION} and prod(extents[spatial:]) > _UNROLLED
    if is_long and not in_rows and _is_sum_of_neighbours(node):
        lanes = largest_divisor(extents[-1], _VECTOR)
        # TVM cannot split a sum into a single number that another block reads without a loop.
        blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
        if lanes >= _VECTOR // 2 and (spatial or all(map(schedule.get_loops, blocks))):
            _sum_in_lanes(schedule, block, spatial, lanes)
            return
    if not spatial:
        return
    outer = next((n for n in range(1, spatial) if prod(extents[:n]) >= _TILES), spatial)
    fused, row, reductions = loops[:outer], loops[spatial - 1], loops[spatial:]
    if outer == spatial > 1 and (in_rows or not reductions):
        parts = -(-_TILES // prod(extents[: spatial - 1]))
        extent = extents[spatial - 1]
        # Prefer a vector's length to less, if it is a divisor.
        length = largest_divisor(extent, max(extent // parts, min(extent, _VECTOR)))
        if length > _VECTOR // 2:
            fused[-1], row = schedule.split(row, [None, length])
        else:
            fused.pop()
    sums = is_long and in_rows and len(node.writes) == 1
    if sums:
        _reorder(schedule, reductions, row)
    schedule.parallel(schedule.fuse(*fused) if len(fused) > 1 else fused[0])
    if sums:
        # Only after parallelising: a block that only adds to existing values cannot be made
        # parallel.
        schedule.decompose_reduction(block, reductions[0])


def _schedule_open_block(schedule: Any, block: Any, spatial: int) -> None:
    """Fuse all outer loops into a parallel one, whatever their extents; rows are left to LLVM."""
    loops, node = schedule.get_loops(block), schedule.get(block)
    if not spatial:
        return
    outer = [loop for loop in loops[: spatial - 1] if not _is_one(schedule.get(loop).extent)]
    row, reductions = loops[spatial - 1], loops[spatial:]
    if not outer:
        schedule.parallel(row)
        return
    sums = len(reductions) and _is_in_rows(node, node.iter_vars[spatial - 1].var)
    if sums:
        schedule.reorder(*reductions, row)
    fused = loops[: spatial - 1]
    schedule.parallel(schedule.fuse(*fused) if len(fused) > 1 else fused[0])
    if sums:
        schedule.decompose_reduction(block, reductions[0])


def _is_one(extent: Any) -> bool:
    return isinstance(extent, tvm.tirx.IntImm) and int(extent) == 1


def _is_sum_of_neighbours(block: Any) -> bool:
    """Return whether a block adds up elements that are adjacent in memory."""
    store, along = block.body, block.iter_vars[-1].var
    is_sum = isinstance(store, tvm.tirx.BufferStore) and isinstance(store.value, tvm.tirx.Add)
    return is_sum and all(_step(region, along) in (0, 1) for region in block.reads)


def _sum_in_lanes(schedule: Any, block: Any, spatial: int, lanes: int) -> None:
    """Split a sum into one for each lane of a vector; these are added up last."""
    loops = schedule.get_loops(block)
    _, lane = schedule.split(loops[-1], [None, lanes])
    parts = schedule.rfactor(lane, spatial)
    if spatial:
        outer = schedule.fuse(*loops[:spatial]) if spatial > 1 else loops[0]
        schedule.compute_at(parts, outer)
        _, lane, *reductions = schedule.get_loops(parts)
        schedule.reorder(*reductions, lane)
        schedule.parallel(outer)
    else:
        *reductions, lane = schedule.get_loops(parts)
    schedule.vectorize(lane)
    schedule.decompose_reduction(parts, reductions[0])


def _reorder(schedule: Any, reductions: Sequence[Any], row: Any) -> None:
    """Move a loop inside those of a reduction; vectorise it if its length fits vectors."""
    vector = gcd(int(schedule.get(row).extent), _VECTOR)
    if vector < _VECTOR // 2:
        # Leave vectorising to LLVM.
        schedule.reorder(*reductions, row)
        return
    vectors, within = schedule.split(row, [None, vector])
    schedule.reorder(*reductions, vectors, within)
    schedule.vectorize(within)


def _is_in_rows(block: Any, variable: Any) -> bool:
    """Return whether a block writes adjacent elements for adjacent values of a variable.

    It must also read adjacent elements, or always the same.
    """
    written = all(_step(region, variable) == 1 for region in block.writes)
    return written and all(_step(region, variable) in (0, 1) for region in block.reads)


def _step(region: Any, variable: Any) -> int | None:
    """Return by how many elements of the innermost axis a region moves with a variable.

    None if it moves along other axes too, or not by as much every time.
    """
    steps: list[int] = []
    for extent in region.region:
        coefficients = detect_linear_equation(extent.min, [variable])
        if not coefficients or not isinstance(coefficients[0], tvm.tirx.IntImm):
            return None
        steps.append(int(coefficients[0]))
    return None if not steps or any(steps[:-1]) else steps[-1]
