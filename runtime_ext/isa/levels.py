"""Find the level of a machine or a processor, and the instruction set of a target."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from runtime_ext.isa import arm, x86
from runtime_ext.isa.isa import Isa, Level
from tvm_ios.errors import UserError


def best_level(machine: str, features: Collection[str]) -> Level:
    """Return the best level of a machine, named as by uname, with these features (LLVM's names).

    Raise UserError if it has none.
    """
    if machine == arm.AARCH64.name:
        return arm.AARCH64
    for level in x86.LEVELS.values():
        if level.features <= set(features):
            return level
    raise UserError("kernels are made for x86-64 with SSE 4.2 or better; this machine has less")


def level_named(name: str) -> Level:
    """Return the level of a name; raise KeyError if there is none."""
    return arm.AARCH64 if name == arm.AARCH64.name else x86.LEVELS[name]


def level_of(processor: str) -> str:
    """Return the level that a target's processor is named for; another processor unchanged."""
    named = (level.name for level in x86.LEVELS.values() if level.processor == processor)
    return next(named, processor)


def isa_of(target: Any) -> Isa:
    """Return the instruction set of a ``tvm.target.Target`` of kind llvm.

    It depends on the target's features, not on LLVM's preferred width, which is 512 bits for
    an AVX2 machine as soon as the compiler itself knows AVX-512. Raise UserError for other kinds.
    """
    from tvm.target.codegen import target_has_features

    if str(target.kind) != "llvm":
        raise UserError(
            f"kernels are made for CPU targets, but the target's kind is {target.kind}; "
            'use {"kind": "llvm", "mcpu": ...}'
        )
    has = partial(target_has_features, target=target)
    return arm.NEON if has("neon") else x86.isa_with(has)
