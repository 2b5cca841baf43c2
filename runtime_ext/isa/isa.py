"""An instruction set as kernels see it, and a level of one, for which code is compiled."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: The form of units whose products are of bytes.
BYTES = "int8"


class Products(NamedTuple):
    """Instructions that multiply packs of channels and add up the products of each.

    ``code`` is LLVM IR of ``multiply_packs(sums, data, weights)``, of three registers: packs of a
    pixel repeated, or of several pixels one after another, times those of as many output channels
    as fill a register; the sums are of each pixel with each of these.
    """

    code: str
    #: Channels of a pack.
    channels: int
    #: Pixels whose packs an instruction multiplies.
    pixels: int = 1
    #: Whether data in bytes are signed; unsigned ones are multiplied less 128 then.
    signed: bool = False


def multiply_packs(sums: str, words: str, numbers: str, instruction: str, operands: str) -> str:
    """Return the code of products by one instruction, named as in LLVM, for its types.

    ``operands`` are ``%x`` for data and ``%y`` for weights, in its order.
    """
    typed = f"{sums} %sum, " + ", ".join(f"{numbers} {name}" for name in operands.split())
    return f"""
declare {sums} @llvm.{instruction}({sums}, {numbers}, {numbers})
define {sums} @multiply_packs({sums} %sum, {words} %data, {words} %weights) {{
  %x = bitcast {words} %data to {numbers}
  %y = bitcast {words} %weights to {numbers}
  %r = call {sums} @llvm.{instruction}({typed})
  ret {sums} %r
}}
"""


class Estimate(NamedTuple):
    """An instruction that estimates reciprocals to 11 bits or more, by LLVM's name.

    A masked one has two more operands: the lanes that masked ones become, and the mask.
    """

    name: str
    is_masked: bool = False


@dataclass(frozen=True)
class Isa:
    """The vectors and instructions that code for a CPU target may use, and what they cost."""

    #: float32 values in one vector register.
    lanes: int
    #: Vector registers that the instruction set names.
    registers: int
    #: Has an instruction that adds a product to a number, and rounds the sum once (FMA).
    fuses: bool = False
    #: Multiplies a vector by one element of another, so that elements are loaded together.
    by_element: bool = False
    #: Pixels that share a register of sums, in contractions whose instructions multiply matrices.
    pixels: int = 1
    #: The type of indices. LLVM finds the pointers that advance in a loop among those of 64 bits,
    #: and else adds up each address that an instruction has no room for.
    index: str = "int32"

    #: Has an instruction that rounds float32 to bfloat16.
    rounds: bool = False
    #: Instructions that estimate the reciprocals of float32, by how many at once.
    reciprocals: Mapping[int, Estimate] = field(default_factory=dict[int, Estimate])
    #: Instructions that multiply packs of channels, by the type in these: ``int16``, ``int8``,
    #: whose data are unsigned bytes and weights signed ones, and ``bfloat16``.
    products: Mapping[str, Products] = field(default_factory=dict[str, Products])
    #: LLVM's names of instructions that multiply whole matrices, by the type in them: ``bfloat16``,
    #: and ``int8``, unsigned by signed.
    matrices: Mapping[str, str] = field(default_factory=dict[str, str])
    #: Vector multiply-adds a cycle that processors may reach.
    multiply_adds: tuple[float, ...] = (2.0,)
    #: Cycles in which a vector of weights comes from the second-level cache.
    weight_cycles: float = 2.0
    #: Factor of a register tile's time if it has weights in several vectors and leaves few
    #: registers free: where it can, LLVM loads weights of the next channel into these.
    crowding: float = 1.0
    #: Bytes of a block's packed weights that stay in a first-level cache, by default one of 48 KiB,
    #: beside the input.
    near_bytes: int = 40 * 1024
    #: The same of a second-level cache, by default one of 1 MiB.
    block_bytes: int = 640 * 1024

    @property
    def words(self) -> int:
        """The float32 values that are loaded together where each multiplies vectors."""
        return self.lanes if self.by_element else 1


@dataclass(frozen=True)
class Level:
    """A level of an architecture, which many processors have; features are named as in LLVM."""

    #: As in ``--arch``, in targets and in files.
    name: str
    #: The features that tell this level from those below.
    features: frozenset[str]
    #: The data of a TVM target of this level, besides kind and cores.
    target: Mapping[str, Any]
    #: A processor of this level: LLVM of older TVMs does not know the levels by name.
    processor: str
    #: FLOPs a cycle and core of two units that multiply and add vectors.
    flops: int
    #: Features that processors may have beyond the level, by the form of units that uses them.
    beyond: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    #: The machine that has it, as uname calls it.
    machine: str = "x86_64"

    def attributes(self, forms: Collection[str], present: Collection[str]) -> list[str]:
        """Return the attributes of a target with those ``present`` features that forms use."""
        used = (name for form, names in self.beyond.items() if form in forms for name in names)
        return [f"+{name}" for name in dict.fromkeys(used) if name in present]
