"""x86-64: levels, vectors of SSE, AVX and AVX-512, and instructions beyond the levels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from runtime_ext.isa.isa import BYTES, Estimate, Isa, Level, Products, multiply_packs
from tvm_ios.program.bfloat16 import FORM

V4 = Level(
    "x86-64-v4",
    frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    {"mcpu": "x86-64-v4"},
    processor="skylake-avx512",
    flops=64,
    beyond={
        FORM: ("avx512bf16", "amx-tile", "amx-bf16"),
        BYTES: ("avx512vnni", "amx-tile", "amx-int8"),
    },
)
V3 = Level(
    "x86-64-v3",
    frozenset({"avx2", "bmi", "bmi2", "f16c", "fma", "movbe"}),
    {"mcpu": "x86-64-v3"},
    processor="haswell",
    flops=32,
    beyond={BYTES: ("avxvnni",)},
)
V2 = Level(
    "x86-64-v2",
    frozenset({"popcnt", "sse4.1", "sse4.2", "ssse3"}),
    {"mcpu": "x86-64-v2"},
    processor="nehalem",
    flops=16,
)
#: The levels by name, best first.
LEVELS = {level.name: level for level in (V4, V3, V2)}

_RECIPROCALS = {
    4: Estimate("llvm.x86.sse.rcp.ps"),
    8: Estimate("llvm.x86.avx.rcp.ps.256"),
    16: Estimate("llvm.x86.avx512.rcp14.ps.512", is_masked=True),
}
SSE = Isa(lanes=4, registers=16)
AVX = Isa(lanes=8, registers=16)
#: Some processors compute vectors of 512 bits in halves.
AVX512 = Isa(
    lanes=16,
    registers=32,
    fuses=True,
    reciprocals=_RECIPROCALS,
    multiply_adds=(2.0, 1.0),
    weight_cycles=2.5,
    crowding=1.05,
)


def _pairs(lanes: int, instruction: str) -> Products:
    """Return products of pairs of int16 by an instruction that gives the sums of pairs."""
    code = """
declare SUMS @llvm.x86.INSTRUCTION(NUMBERS, NUMBERS)
define SUMS @multiply_packs(SUMS %sum, SUMS %data, SUMS %weights) {
  %x = bitcast SUMS %data to NUMBERS
  %y = bitcast SUMS %weights to NUMBERS
  %pairs = call SUMS @llvm.x86.INSTRUCTION(NUMBERS %y, NUMBERS %x)
  %r = add SUMS %sum, %pairs
  ret SUMS %r
}
"""
    code = code.replace("SUMS", f"<{lanes} x i32>").replace("NUMBERS", f"<{2 * lanes} x i16>")
    return Products(code.replace("INSTRUCTION", instruction), 2)


def _fours(lanes: int) -> Products:
    """Return products of fours of bytes.

    The instruction's types differ between versions of LLVM, which reads the older ones as well.
    """
    words = f"<{lanes} x i32>"
    instruction = f"x86.avx512.vpdpbusd.{32 * lanes}"
    return Products(multiply_packs(words, words, words, instruction, "%x %y"), 4)


_BFLOAT16 = multiply_packs(
    "<16 x float>", "<16 x i32>", "<32 x bfloat>", "x86.avx512bf16.dpbf16ps.512", "%y %x"
)
#: Products of packs by the lanes of their sums: the types in the packs, the feature, the code.
_PRODUCTS = {
    4: [("int16", "sse2", _pairs(4, "sse2.pmadd.wd"))],
    8: [("int16", "avx2", _pairs(8, "avx2.pmadd.wd")), (BYTES, "avxvnni", _fours(8))],
    16: [
        ("int16", "avx512bw", _pairs(16, "avx512.pmaddw.d.512")),
        (BYTES, "avx512vnni", _fours(16)),
        (FORM, "avx512bf16", Products(_BFLOAT16, 2)),
    ],
}
#: Products of AMX's matrices, likewise.
_MATRICES = [(FORM, "amx-bf16", "x86.tdpbf16ps"), (BYTES, "amx-int8", "x86.tdpbusd")]


def isa_with(has: Callable[[str], bool]) -> Isa:
    """Return the instruction set of a target, of which ``has`` says whether it has a feature."""
    isa = AVX512 if has("avx512f") else AVX if has("avx") else SSE
    wide = isa is AVX512
    return replace(
        isa,
        fuses=isa.fuses or (isa is AVX and has("fma")),
        rounds=wide and has("avx512bf16"),
        products={kind: code for kind, name, code in _PRODUCTS[isa.lanes] if has(name)},
        matrices={kind: code for kind, name, code in _MATRICES if wide and has(name)},
    )
