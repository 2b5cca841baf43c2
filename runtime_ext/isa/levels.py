"""Find the level of a machine or a processor, and the instruction set of a target."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import partial
from typing import Any

from runtime_ext.isa import arm, x86
from runtime_ext.isa.isa import Isa, Level
from tvm_ios.errors import UserError

#: How levels are named, for refusals.
NAMES = ", ".join((*x86.LEVELS, arm.BASE, *(f"{arm.BASE}+{own}" for own in arm.EXTENSIONS)))
_PROCESSORS = {level.processor: level.name for level in x86.LEVELS.values()}
_X86 = re.compile("|".join((*x86.LEVELS, *_PROCESSORS)))


def best_level(machine: str, features: Collection[str]) -> Level:
    """Return the best level of a machine, named as by uname, with these features (LLVM's names).

    Raise UserError if it has none.
    """
    if machine == arm.AARCH64:
        return arm.best_level(features)
    for level in x86.LEVELS.values():
        if machine == level.machine and level.features <= set(features):
            return level
    raise UserError(
        "kernels are made for x86-64 with SSE 4.2 or better and for 64-bit Arm; this machine is "
        f"{machine}" + (" without SSE 4.2" if machine == x86.V2.machine else "")
    )


def highest_level(machine: str) -> Level:
    """Return the level of a machine, named as by uname, with all features that kernels may use."""
    return arm.best_level(arm.EXTENSIONS.values()) if machine == arm.AARCH64 else x86.V4


def level_named(name: str) -> Level:
    """Return the level of a name; raise KeyError if there is none."""
    return x86.LEVELS[name] if name in x86.LEVELS else arm.level_named(name)


def levels_below(level: Level) -> list[str]:
    """Return the names of the levels whose code runs where that of a level does, itself first."""
    if level.machine == arm.AARCH64:
        return arm.levels_below(level)
    names = list(x86.LEVELS)
    return names[names.index(level.name) :]


def level_in(text: str) -> str | None:
    """Return the name of the level in the text of a target or a device; None if there is none.

    LLVM of older TVMs does not know the levels of x86-64 by name, but a processor of each.
    """
    if found := _X86.search(text):
        return _PROCESSORS.get(found[0], found[0])
    if found := re.search(rf"{arm.BASE}(\+\w+)*", text):
        return level_named(found[0]).name
    if arm.AARCH64 in text:
        return arm.best_level(re.findall(r"\+([\w.-]+)", text)).name
    return None


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
    return (arm if has("neon") else x86).isa_with(has)


def cpu_of(target: Any) -> str:
    """Return the processor that a CPU target names; the level of one for any processor of Arm's."""
    processor = str(target.attrs["mcpu"])
    return level_in(str(target)) or processor if processor == arm.GENERIC else processor
