"""Products of a few vectors with a matrix: neighbouring threads read every weight once."""

from __future__ import annotations

from math import ceil
from typing import Any

from tvm import tirx

from runtime_ext.cuda.kernels.contraction_shape import depth_of
from runtime_ext.cuda.kernels.gemm_operands import pixel_of
from runtime_ext.cuda.kernels.statements import evaluate, fetch
from runtime_ext.cuda.kernels.team_sums import TeamSums
from runtime_ext.cuda.kernels.threads import ThreadCode
from runtime_ext.kernels.code import Index, constant, load
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Contraction
from runtime_ext.kernels.statements import divide
from tvm_ios.costs.cuda_kernels.product_estimate import TOGETHER
from tvm_ios.costs.cuda_kernels.tile import WIDE, GemmTile


def vector_results(
    code: ThreadCode,
    spec: Contraction,
    tile: GemmTile,
    buffers: list[Any],
    channel: Index,
    weights: Index,
    steps: tuple[Index, Index],
    most: int,
) -> TeamSums:
    """Sum the products of vectors and weights; each team of threads takes every n-th weight row.

    ``channel`` and ``weights`` are the element offsets at which the group's channels and the
    block's columns begin. ``steps`` is the range of the reduction, in units of the tile's depth;
    ``most`` is its greatest length.
    """
    depth, rows = depth_of(spec), tile.rows
    teams = tile.teams
    team, place = divide(code, "team", code.thread, tile.team, teams)
    acc = code.registers("acc", rows * WIDE)
    with code.unrolled("i", rows * WIDE) as i:
        code.store(acc, i, constant(0.0, 1), 1)
    origins = [
        spec.data.offset
        + channel
        + image * spec.data.strides[0]
        + y * spec.window.strides[0] * spec.data.strides[1]
        + x * spec.window.strides[1] * spec.data.strides[2]
        for image, y, x in (pixel_of(code, spec, row) for row in range(rows))
    ]
    first, last = steps
    together = min(TOGETHER, most)
    vectors, matrix = buffers[spec.data.buffer], buffers[spec.weight]

    def exists(step: Index) -> Any:
        tests = [] if isinstance(last, int) and most % together == 0 else [step < last]
        if depth % tile.depth:
            tests.append(step * tile.depth + team < depth)
        return tirx.all(*tests) if tests else None

    with code.loop("several", 0, ceil(most / together)) as number:
        begin = code.bind("begin", first + number * together)
        columns = code.registers("w", together * WIDE, str(matrix.ty.dtype))
        elements = code.registers("x", together * rows, str(vectors.ty.dtype))
        with code.unrolled("s", together) as s:
            step = code.bind("step", begin + s)
            with code.branch(exists(step)):
                k = code.bind("k", step * tile.depth + team)
                at = weights + k * tile.columns + place * WIDE
                code.store(columns, s * WIDE, load(matrix, at, WIDE), WIDE)
                for row, origin in enumerate(origins):
                    value = load(vectors, origin + k * spec.data.strides[3], 1)
                    code.store(elements, s * rows + row, value, 1)
        with code.unrolled("s", together) as s, code.branch(exists(begin + s)):
            for row in range(rows):
                value = fetch(elements, s * rows + row)
                if spec.prologue != ACC:
                    value = evaluate(code, spec.prologue, value)
                value = code.bind("x", value)
                with code.unrolled("j", WIDE) as j:
                    total = load(acc, row * WIDE + j, 1) + value * fetch(columns, s * WIDE + j)
                    code.store(acc, row * WIDE + j, total, 1)
    sums = code.shared("sums", teams * rows * tile.columns)
    with code.unrolled("row", rows) as row:
        at = (team * rows + row) * tile.columns + place * WIDE
        code.store(sums, at, load(acc, row * WIDE, WIDE), WIDE)
    code.synchronise()
    return TeamSums(code, tile, sums, teams)
