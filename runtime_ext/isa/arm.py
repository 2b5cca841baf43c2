"""64-bit Arm, of which every processor has the vectors of Neon."""

from __future__ import annotations

from runtime_ext.isa.isa import Isa, Level

#: The level, named as uname calls such machines; LLVM calls an unknown processor generic.
AARCH64 = Level(
    "aarch64",
    frozenset({"neon"}),
    {"mtriple": "aarch64-linux-gnu", "mcpu": "generic", "mattr": ["+neon"]},
    processor="generic",
    flops=16,
)
NEON = Isa(lanes=4, registers=32, fuses=True)
