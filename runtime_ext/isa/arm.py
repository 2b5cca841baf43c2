"""64-bit Arm: the level that every processor has, its extensions, and vectors of Neon."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import combinations

from runtime_ext.isa.isa import BYTES, Isa, Level, Products, multiply_packs
from tvm_ios.program.bfloat16 import FORM

#: The machine, as uname calls it.
AARCH64 = "aarch64"
#: LLVM's name of any processor.
GENERIC = "generic"
#: The level without extensions, of which every processor has the vectors of Neon.
BASE = "armv8-a"
#: LLVM's names of features by the extensions' names, which are those of compilers, in the order of
#: a level's name.
EXTENSIONS = {"dotprod": "dotprod", "fp16": "fullfp16", "i8mm": "i8mm", "bf16": "bf16"}
#: Arm's number as an implementer, and its processors' names by their part numbers.
ARM = "0x41"
PARTS = {
    "0xd03": "Cortex-A53",
    "0xd08": "Cortex-A72",
    "0xd0b": "Cortex-A76",
    "0xd0c": "Neoverse N1",
    "0xd40": "Neoverse V1",
    "0xd4f": "Neoverse V2",
}
#: The rates are those of LLVM 22's scheduling models, which follow Arm's software optimisation
#: guides: a multiply-add of 128 bits a cycle on a Cortex-A53 and A72, two on an A76 and a
#: Neoverse N1, four on a V1 and V2. The caches are the smallest of the A72's (32 KiB) and of
#: the N1's (512 KiB) technical reference manuals; that the second level gives 16 bytes a cycle
#: is assumed.
NEON = Isa(
    lanes=4,
    registers=32,
    fuses=True,
    by_element=True,
    index="int64",
    multiply_adds=(1.0, 2.0, 4.0),
    weight_cycles=1.0,
    near_bytes=26 * 1024,
    block_bytes=320 * 1024,
)
_SMLAL = """
define <4 x i32> @multiply_packs(<4 x i32> %sum, <4 x i16> %data, <4 x i16> %weights) {
  %x = sext <4 x i16> %data to <4 x i32>
  %y = sext <4 x i16> %weights to <4 x i32>
  %products = mul nsw <4 x i32> %y, %x
  %r = add <4 x i32> %sum, %products
  ret <4 x i32> %r
}
"""
_SDOT = multiply_packs(
    "<4 x i32>", "<4 x i32>", "<16 x i8>", "aarch64.neon.sdot.v4i32.v16i8", "%y %x"
)
_USMMLA = multiply_packs(
    "<4 x i32>", "<2 x i64>", "<16 x i8>", "aarch64.neon.usmmla.v4i32.v16i8", "%x %y"
)
_BFMMLA = multiply_packs("<4 x float>", "<2 x i64>", "<8 x bfloat>", "aarch64.neon.bfmmla", "%x %y")
#: Products of packs: the types in them, the feature that has them, the instructions; of several
#: for a type the last.
_PRODUCTS = [
    ("int16", "neon", Products(_SMLAL, 1)),
    (BYTES, "dotprod", Products(_SDOT, 4, signed=True)),
    (BYTES, "i8mm", Products(_USMMLA, 8, pixels=2)),
    (FORM, "bf16", Products(_BFMMLA, 4, pixels=2)),
]


def isa_with(has: Callable[[str], bool]) -> Isa:
    """Return the instruction set of a target, of which ``has`` says whether it has a feature."""
    products = {kind: code for kind, feature, code in _PRODUCTS if has(feature)}
    return replace(NEON, rounds=has("bf16"), products=products)


def level_named(name: str) -> Level:
    """Return the level ``armv8-a``, or with extensions such as ``armv8-a+dotprod+fp16``.

    Extensions may be in any order. Raise KeyError if there is no such level.
    """
    base, *extensions = name.split("+")
    if base != BASE or not EXTENSIONS.keys() >= set(extensions):
        raise KeyError(name)
    features = ["neon", *(llvm for own, llvm in EXTENSIONS.items() if own in extensions)]
    return Level(
        "+".join([BASE, *(own for own in EXTENSIONS if own in extensions)]),
        frozenset(features),
        {
            "mtriple": f"{AARCH64}-linux-gnu",
            "mcpu": GENERIC,
            "mattr": [f"+{feature}" for feature in features],
        },
        processor=GENERIC,
        flops=16,
        machine=AARCH64,
    )


def best_level(features: Collection[str]) -> Level:
    """Return the level with all extensions that a processor with these features (LLVM's) has."""
    extensions = (own for own, llvm in EXTENSIONS.items() if llvm in features)
    return level_named("+".join([BASE, *extensions]))


def levels_below(level: Level) -> list[str]:
    """Return the names of the levels with no other extensions, the most of them first."""
    own = level.name.split("+")[1:]
    numbers = range(len(own), -1, -1)
    return ["+".join([BASE, *some]) for n in numbers for some in combinations(own, n)]
