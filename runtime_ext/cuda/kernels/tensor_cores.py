"""The product of two slabs by tensor cores: a warp multiplies tiles of 16 rows by 8 columns.

Fragments are those of ``mma.sync`` (PTX ISA, "Matrix Fragments for mma.m16n8k8", "... m16n8k16"):
a thread of a warp has, of every tile of results, two neighbouring columns of two rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.backend.cuda.op import cuda_func_call

from runtime_ext.cuda.kernels.threads import ThreadCode
from runtime_ext.kernels.code import Index, load
from runtime_ext.kernels.statements import divide
from tvm_ios.costs.cuda_kernels.tile import MMA_COLUMNS, MMA_DEPTH, MMA_ROWS, GemmTile, warp_layout
from tvm_ios.devices.device import WARP


@dataclass(frozen=True)
class _Instruction:
    """A tensor-core instruction: its depth, and CUDA C++ of ``name(results, left, right)``."""

    name: str
    depth: int
    source: str

    @property
    def left(self) -> int:
        """Elements that a thread holds of a fragment of rows."""
        return MMA_ROWS * self.depth // WARP

    @property
    def right(self) -> int:
        """Elements that a thread holds of a fragment of columns."""
        return MMA_COLUMNS * self.depth // WARP


_MULTIPLY = """\
#ifndef TVM_IOS_EMULATOR
__device__ __forceinline__ void {name}(float* d, const float* a, const float* b) {{
  unsigned x[4], y[2];
{convert}
  asm volatile("mma.sync.aligned.{kind} {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, "
               "{{%0, %1, %2, %3}};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
}}
#endif
"""
_TO_TF32 = """\
  for (int i = 0; i < 4; ++i) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(x[i]) : "f"(a[i]));
  for (int i = 0; i < 2; ++i) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y[i]) : "f"(b[i]));"""
_TO_HALF = """\
  for (int i = 0; i < 4; ++i)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x[i]) : "f"(a[2 * i + 1]), "f"(a[2 * i]));
  for (int i = 0; i < 2; ++i)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y[i]) : "f"(b[2 * i + 1]), "f"(b[2 * i]));"""

_INSTRUCTIONS = {
    "tf32": _Instruction(
        "multiply_tf32",
        MMA_DEPTH["tf32"],
        _MULTIPLY.format(
            name="multiply_tf32", convert=_TO_TF32, kind="m16n8k8.row.col.f32.tf32.tf32.f32"
        ),
    ),
    "float16": _Instruction(
        "multiply_half",
        MMA_DEPTH["float16"],
        _MULTIPLY.format(
            name="multiply_half", convert=_TO_HALF, kind="m16n8k16.row.col.f32.f16.f16.f32"
        ),
    ),
}


class WarpTiles:
    """A thread's share of its warp's results; see :class:`runtime_ext.cuda.kernels.gemm.Results`.

    Its position in the block and in the warp is computed once, before the reduction begins.
    """

    def __init__(self, code: ThreadCode, tile: GemmTile, precision: str) -> None:
        self.code, self.tile, self._with = code, tile, _INSTRUCTIONS[precision]
        layout = warp_layout(tile)
        assert layout is not None, "no tile of warps"
        down, across = layout
        self._height, self._width = tile.rows // down, tile.columns // across
        self._down, self._across = self._height // MMA_ROWS, self._width // MMA_COLUMNS
        self.team, thread = divide(code, "team", code.thread, tile.team, tile.teams)
        warp, lane = divide(code, "warp", thread, WARP, tile.team // WARP)
        y, x = divide(code, "warp_row", warp, across, down)
        row_in_fragment, self._pair = divide(code, "lane_row", lane, 4, WARP // 4)
        self._own = row_in_fragment
        self._row = code.bind("row_of_warp", y * self._height)
        self._column = code.bind("column_of_warp", x * self._width)
        self.held = code.registers("acc", self._down * self._across * 4)

    def multiply_add(self, a: tuple[Any, Index, int], b: tuple[Any, Index, int]) -> None:
        """Add the product of a slab of rows and one of columns: (buffer, origin, stride) each."""
        code, step = self.code, self._with
        share = self.tile.depth // step.depth // self.tile.teams
        with code.unrolled("k", share) as own:
            k = self.team * share + own
            left = code.registers("left", self._down * step.left)
            right = code.registers("right", self._across * step.right)
            with code.unrolled("i", self._down) as i:
                for e in range(step.left):
                    # Elements come in pairs of rows; for half precision also of neighbours.
                    depth, lower = self._element(e, step.left)
                    row = self._row + i * MMA_ROWS + lower * 8 + self._own
                    at = a[1] + (k * step.depth + depth) * a[2] + row
                    code.store(left, i * step.left + e, load(a[0], at, 1), 1)
            with code.unrolled("j", self._across) as j:
                for e in range(step.right):
                    depth, _ = self._element(e, step.right)
                    column = self._column + j * MMA_COLUMNS + self._own
                    at = b[1] + (k * step.depth + depth) * b[2] + column
                    code.store(right, j * step.right + e, load(b[0], at, 1), 1)
            with code.unrolled("i", self._down) as i, code.unrolled("j", self._across) as j:
                call = cuda_func_call(
                    step.name,
                    self.held.access_ptr("rw", offset=(i * self._across + j) * 4),
                    left.access_ptr("r", offset=i * step.left),
                    right.access_ptr("r", offset=j * step.right),
                    source_code=step.source,
                )
                code.append(tirx.Evaluate(call))

    def _element(self, e: int, count: int) -> tuple[Index, int]:
        """Return the depth of a fragment's element, and whether it is of the lower rows."""
        if self._with.depth == 8:
            lower, later = (e % 2, e // 2) if count == 4 else (0, e)
            return self._pair + later * 4, lower
        pair, odd = divmod(e, 2)
        lower, later = (pair % 2, pair // 2) if count == 8 else (0, pair)
        return self._pair * 2 + later * 8 + odd, lower

    def each_row(self, use: Callable[[Index, Index], None]) -> None:
        """Call ``use`` for each row of this thread: its number in the thread, and in the block."""
        with self.code.unrolled("i", self._down) as i:
            for lower in range(2):
                use(i * 2 + lower, self._row + i * MMA_ROWS + lower * 8 + self._own)

    def each_column(
        self, i: Index, use: Callable[[Index, Callable[[Index], Any], int], None]
    ) -> None:
        """Call ``use`` for each pair of neighbouring columns of a row of the thread."""
        tiles, lower = (
            divmod(i, 2) if isinstance(i, int) else (tirx.floordiv(i, 2), tirx.floormod(i, 2))
        )
        for n in range(self._across):

            def value(j: Index, n: int = n) -> Any:
                at = (tiles * self._across + n) * 4 + lower * 2 + j
                return load(self.held, at, 1)

            use(self._column + n * MMA_COLUMNS + self._pair * 2, value, 2)
