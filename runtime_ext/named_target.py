"""The TVM target that the command line's ``--target`` and ``--arch`` name."""

from __future__ import annotations

from typing import Any

from runtime_ext.isa.levels import NAMES, level_named
from runtime_ext.machine.this_machine import host_target
from tvm_ios.errors import UserError


def target_of(kind: str, arch: str | None, lanes: int, dialect: str = "relax") -> Any:
    """Return the TVM target of a kind and architecture, or None for this machine.

    ``kind`` is ``llvm`` or ``cuda``; ``arch`` an instruction-set level, or an architecture like
    ``sm_90``; ``lanes`` has no effect on a GPU; ``dialect`` is ``relax`` or ``relay``, whose TVM
    knows processors by other names. Measurements made here hold only for this machine. Raise
    UserError if the architecture is unknown.
    """
    if kind == "cuda":
        return {"kind": "cuda", "arch": arch or "sm_90"}
    if arch is None:
        return None
    try:
        level_named(arch)
    except KeyError:
        raise UserError(f"{arch!r} is no level of a CPU: use {NAMES}") from None
    if dialect == "relay":
        from runtime_ext.relay import library

        return library.host_target(lanes, arch)
    return host_target(lanes, arch)
