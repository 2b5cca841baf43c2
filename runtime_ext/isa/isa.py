"""An instruction set as kernels see it, and a level of one, for which code is compiled."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: The form of units whose products are of bytes.
BYTES = "int8"


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
    #: Has an instruction that rounds float32 to bfloat16.
    rounds: bool = False
    #: Instructions that estimate the reciprocals of float32, by how many at once.
    reciprocals: Mapping[int, Estimate] = field(default_factory=dict[int, Estimate])
    #: Instructions that add up the products of packs of 32 bits, by the type in the packs. Of
    #: ``int16`` LLVM's name of one that gives the sum of each pair. Of ``int8`` (four unsigned by
    #: signed) and ``bfloat16`` LLVM IR of a function that adds these to sums: ``multiply_fours``
    #: and ``multiply_pairs``.
    products: Mapping[str, str] = field(default_factory=dict[str, str])
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
