"""x86-64: levels, vectors of SSE, AVX and AVX-512, and instructions beyond the levels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from runtime_ext.isa.isa import BYTES, Estimate, Isa, Level
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


def _multiply_fours(lanes: int) -> str:
    """Return LLVM IR of ``multiply_fours`` for vectors of so many int32.

    The instruction's types differ between versions of LLVM, which reads the older ones as well.
    """
    return """
declare VECTOR @llvm.x86.avx512.vpdpbusd.BITS(VECTOR, VECTOR, VECTOR)
define VECTOR @multiply_fours(VECTOR %sum, VECTOR %a, VECTOR %b) {
  %r = call VECTOR @llvm.x86.avx512.vpdpbusd.BITS(VECTOR %sum, VECTOR %a, VECTOR %b)
  ret VECTOR %r
}
""".replace("VECTOR", f"<{lanes} x i32>").replace("BITS", str(32 * lanes))


#: TIR has vectors of bfloat16 only in memory, so the function takes their bits.
_MULTIPLY_PAIRS = """
declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)
define <16 x float> @multiply_pairs(<16 x float> %sum, <32 x i16> %a, <32 x i16> %b) {
  %x = bitcast <32 x i16> %a to <32 x bfloat>
  %y = bitcast <32 x i16> %b to <32 x bfloat>
  %r = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %sum, <32 x bfloat> %x,
                                                           <32 x bfloat> %y)
  ret <16 x float> %r
}
"""
#: Products of packs by the lanes of their sums: the types in the packs, the feature, the code.
_PRODUCTS = {
    4: [("int16", "sse2", "llvm.x86.sse2.pmadd.wd")],
    8: [
        ("int16", "avx2", "llvm.x86.avx2.pmadd.wd"),
        (BYTES, "avxvnni", _multiply_fours(8)),
    ],
    16: [
        ("int16", "avx512bw", "llvm.x86.avx512.pmaddw.d.512"),
        (BYTES, "avx512vnni", _multiply_fours(16)),
        (FORM, "avx512bf16", _MULTIPLY_PAIRS),
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
