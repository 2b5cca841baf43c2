"""A small program of open extents: its kernels as Python functions, and what it computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.alternatives import with_alternatives, with_lanes_of
from tvm_ios.program.lower import lower_stages
from tvm_ios.program.program import BufferType, PhaseCall, Program, UnitCode
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.shapes.extent import Symbol, extent_of

#: Rows, columns, and groups of eight more columns that another input has.
ROWS, COLUMNS, GROUPS = (
    Symbol("rows", 1, 9, 3),
    Symbol("columns", 1, 40, 16),
    Symbol("groups", 1, 4, 2),
)
B, L, W = extent_of(ROWS), extent_of(COLUMNS), extent_of(GROUPS, 8)
SYMBOLS = tuple(sorted((ROWS, COLUMNS, GROUPS)))
#: Rows of whole vectors of 16 floats.
PITCH = (L + 15) // 16 * 16
#: What each tile of columns holds.
TILE = 4


def open_graph() -> OpGraph:
    """Units that scale rows, sum them, transpose the sum of both, and add a third input."""
    tensors = (
        Tensor("x", (B, L)),
        Tensor("mask", (B, L)),
        Tensor("extra", (W, B)),
        Tensor("scaled", (B, L)),
        Tensor("sums", (B,)),
        Tensor("turned", (L, B)),
        Tensor("total", (B,)),
    )
    operators = (
        Operator("scale", "k", (0,), (3,), flops=1),
        Operator("sum", "k", (3,), (4,), flops=1),
        Operator("turn", "k", (3, 1, 4), (5,), flops=1),
        Operator("add", "k", (4, 2), (6,), flops=1),
    )
    return OpGraph("open", operators, tensors, (0, 1, 2), (5, 6))


def open_code() -> dict[int, UnitCode]:
    """The code of the units; rows between them are padded, and one unit has scratch."""
    row, sums, padded = BufferType((B, L)), BufferType((B,)), BufferType((B, PITCH))
    return {
        0: UnitCode(
            (row, BufferType((3,)), padded),
            1,
            (),
            (PhaseCall("scale", B, (0, 1, 2), ("columns",)),),
        ),
        1: UnitCode(
            (padded, sums),
            1,
            (BufferType((B, 2)),),
            (
                PhaseCall("sum_halves", B * 2, (0, 2), ("columns",)),
                PhaseCall("sum_both", (B + 1) // 2, (2, 1), ("rows",)),
            ),
        ),
        2: UnitCode(
            (padded, row, sums, BufferType((L, B))),
            1,
            (),
            (PhaseCall("turn", (L + TILE - 1) // TILE, (0, 1, 2, 3), ("columns", "rows")),),
        ),
        3: UnitCode(
            (sums, BufferType((W, B)), sums), 1, (), (PhaseCall("add", B, (0, 1, 2), ("groups",)),)
        ),
    }


def open_program(lanes: int, *, side_by_side: bool = False) -> Program:
    """The units one after another on all lanes, or the last two in groups of their own."""
    stages = [Stage(Strategy.CONCURRENT, ((unit,),)) for unit in range(4)]
    if side_by_side:
        stages[2:] = [Stage(Strategy.CONCURRENT, ((2,), (3,)))]
    return lower_stages(open_graph(), stages, open_code(), lanes=lanes)


#: Shapes in which the last two units of :func:`program_with_a_box` are side by side.
BOX = {"columns": (1, 20), "groups": (1, 4), "rows": (2, 5)}


def program_with_a_box() -> Program:
    """The units one after another on two lanes, and in a box with the last two side by side."""
    program = open_program(2)
    program, lanes = with_lanes_of(program, open_program(2, side_by_side=True))
    return with_alternatives(program, [(BOX, lanes)])


#: By the name of its buffer.
CONSTANTS = {"scale/1": np.array([2, 1, -3], np.float32)}


def _scale(x: Any, factors: Any, y: Any, columns: int, begin: int, end: int) -> None:
    x, factors, y = map(np.from_dlpack, (x, factors, y))
    assert (x.shape[1], y.shape[1] - y.shape[1] % 16) == (columns, y.shape[1])
    y[begin:end, :columns] = x[begin:end] * factors[0] + factors[1]


def _sum_halves(x: Any, halves: Any, columns: int, begin: int, end: int) -> None:
    x, halves = map(np.from_dlpack, (x, halves))
    for tile in range(begin, end):
        row, half = divmod(tile, 2)
        middle = columns // 2
        part = x[row, middle:columns] if half else x[row, :middle]
        halves[row, half] = part.sum(dtype=np.float64)


def _sum_both(halves: Any, sums: Any, rows: int, begin: int, end: int) -> None:
    halves, sums = map(np.from_dlpack, (halves, sums))
    for row in range(2 * begin, min(2 * end, rows)):
        sums[row] = halves[row, 0] + halves[row, 1]


def _turn(
    x: Any, mask: Any, sums: Any, y: Any, columns: int, rows: int, begin: int, end: int
) -> None:
    x, mask, sums, y = map(np.from_dlpack, (x, mask, sums, y))
    part = slice(begin * TILE, min(end * TILE, columns))
    assert y.shape == (columns, rows)
    y[part] = (x[:, part] * mask[:, part] + sums[:, None]).T


def _add(sums: Any, extra: Any, total: Any, groups: int, begin: int, end: int) -> None:
    sums, extra, total = map(np.from_dlpack, (sums, extra, total))
    assert len(extra) == groups * 8
    total[begin:end] = sums[begin:end] + extra[-1, begin:end]


FUNCTIONS: Mapping[str, Callable[..., None]] = {
    "scale": _scale,
    "sum_halves": _sum_halves,
    "sum_both": _sum_both,
    "turn": _turn,
    "add": _add,
}


def values_of(rows: int, columns: int, groups: int) -> dict[str, int]:
    return {"rows": rows, "columns": columns, "groups": groups}


def open_inputs(rows: int, columns: int, groups: int = 1, seed: int = 0) -> dict[str, Array]:
    """Whole numbers, of which float32 makes exact sums."""
    random = np.random.default_rng((seed, rows, columns, groups))
    shapes = {"x": (rows, columns), "mask": (rows, columns), "extra": (8 * groups, rows)}
    return {
        name: random.integers(-9, 9, shape).astype(np.float32) for name, shape in shapes.items()
    }


def expected(inputs: Mapping[str, Array]) -> dict[str, Array]:
    scaled = inputs["x"] * 2 + 1
    sums = scaled.sum(axis=1)
    return {
        "turned": (scaled * inputs["mask"] + sums[:, None]).T,
        "total": sums + inputs["extra"][-1],
    }
