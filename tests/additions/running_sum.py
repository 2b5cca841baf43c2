"""What somebody writes who adds a kernel: running sums along the last axis."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.cuda.kernels.statements import fetch, pixel_at
from runtime_ext.cuda.kernels.statements import store_statement as store_in_thread
from runtime_ext.cuda.kernels.threads import THREADS, ThreadCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import constant, load
from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.spec import PhysicalShape, Statement
from runtime_ext.kernels.statements import element_offset, store_statement
from runtime_ext.units.kernel_draft import PLAIN
from runtime_ext.units.rules.reading import read_input
from runtime_ext.units.unit_draft import UnitDraft
from runtime_ext.units.values import four


@dataclass(frozen=True, slots=True)
class RunningSum:
    """The spec: each of ``count`` elements of a row becomes the sum of those up to it."""

    buffers: tuple[PhysicalShape, ...]
    grid: tuple[int, int, int]
    count: int
    data: Access
    statements: tuple[Statement, ...]


def running_sum(unit: UnitDraft, var: Any, call: Any) -> bool:
    """The rule: relax.cumsum along the last axis."""
    value = unit.value(call.args[0])
    rank = len(value.shape)
    if call.attrs.exclusive or call.attrs.axis is None or rank > 4:
        return False
    if int(call.attrs.axis) % rank != rank - 1:
        return False
    data, _, _, _ = read_input(unit, value, inline=False)
    images, rows, columns, count = four(value.shape, 1)
    spec: Any = RunningSum((), (images, rows, columns), count, data, ())
    unit.bind_anchor(var, spec, PLAIN)
    return True


def write_tiles(spec: RunningSum, isa: Isa) -> tuple[Any, int]:
    """The PrimFunc for a CPU and its number of tiles, of up to four rows each."""
    code = TileCode(spec.buffers, isa)
    source = code.buffers[spec.data.buffer]
    with code.pixels(spec.grid, 4) as pixel:
        (total,) = code.accumulators(1, 1)
        code.store(total, 0, constant(0.0, 1), 1)
        with code.loop("c", 0, spec.count) as c:
            value = load(source, element_offset(spec.data, pixel, c), 1)
            code.store(total, 0, load(total, 0, 1) + value, 1)
            for statement in spec.statements:
                store_statement(code, code.buffers, statement, pixel, c, load(total, 0, 1), 1)
    return code.kernel()


def write_threads(spec: RunningSum, buffers: list[Any]) -> Any:
    """The kernel for a GPU: a thread for each row."""
    rows = prod(spec.grid)
    code = ThreadCode(ceil(rows / THREADS))
    row = code.bind("row", code.block * THREADS + code.thread)
    with code.branch(row < rows):
        pixel = pixel_at(code, row, spec.grid)
        (total,) = code.accumulators(1, 1)
        code.store(total, 0, constant(0.0, 1), 1)
        with code.loop("c", 0, spec.count) as c:
            at = code.bind("at", element_offset(spec.data, pixel, c))
            value = load(total, 0, 1) + fetch(buffers[spec.data.buffer], at)
            code.store(total, 0, value, 1)
            for statement in spec.statements:
                so_far = load(total, 0, 1)
                store_in_thread(code, buffers, statement, pixel, c, lambda _, x=so_far: x, 1)
    return code.kernel(buffers)
