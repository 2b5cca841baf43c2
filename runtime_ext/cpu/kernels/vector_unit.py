"""The vector registers and instructions of a CPU target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.target.codegen import target_has_features

from tvm_ios.errors import UserError

#: LLVM's names of the features that multiply matrices, by number type.
_MATRICES = {"bfloat16": "amx-bf16", "int8": "amx-int8"}


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """The vector registers of a CPU, and the special instructions that it has.

    Attributes
    ----------
    lanes
        float32 values in one vector register.
    registers
        Vector registers that the instruction set names.
    pairs
        Has an instruction that multiplies pairs of int16 and adds the products of each pair.
    fours
        Multiplies four unsigned int8 by signed ones, and adds the products to a sum.
    bfloat16
        Multiplies pairs of bfloat16, and adds the products to a sum in float32.
    rounds
        Rounds float32 to bfloat16.
    fuses
        Adds a product to a number, and rounds the sum once (FMA).
    estimates
        Estimates the reciprocals of 4, 8 or 16 float32.
    matrices
        The types of which it multiplies whole matrices: ``bfloat16``, and ``int8``, unsigned by
        signed.
    """

    lanes: int
    registers: int
    pairs: bool = False
    fours: bool = False
    bfloat16: bool = False
    rounds: bool = False
    fuses: bool = False
    estimates: bool = False
    matrices: frozenset[str] = frozenset()

    @staticmethod
    def of(target: Any) -> VectorUnit:
        """Return the vector unit of a ``tvm.target.Target`` of kind llvm.

        It depends on the target's features, not on LLVM's preferred width, which is 512 bits for
        an AVX2 machine as soon as the compiler itself knows AVX-512.
        """
        if str(target.kind) != "llvm":
            raise UserError(
                f"kernels are made for CPU targets, but the target's kind is {target.kind}; "
                'use {"kind": "llvm", "mcpu": ...}'
            )
        if target_has_features("avx512f", target):
            return VectorUnit(
                16,
                registers=32,
                pairs=target_has_features("avx512bw", target),
                fours=target_has_features("avx512vnni", target),
                bfloat16=target_has_features("avx512bf16", target),
                rounds=target_has_features("avx512bf16", target),
                fuses=True,
                estimates=True,
                matrices=frozenset(
                    numbers
                    for numbers, feature in _MATRICES.items()
                    if target_has_features(feature, target)
                ),
            )
        if target_has_features("avx", target):
            return VectorUnit(
                8,
                registers=16,
                pairs=target_has_features("avx2", target),
                fours=target_has_features("avxvnni", target),
                fuses=target_has_features("fma", target),
            )
        if target_has_features("neon", target):
            return VectorUnit(lanes=4, registers=32, fuses=True)
        return VectorUnit(4, registers=16, pairs=target_has_features("sse2", target))
