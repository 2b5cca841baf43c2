"""The instructions that a target's code uses, and those that this machine has.

Only the features listed in ``runtime_ext/native/cpu_features.cc`` count: the C++ loader checks
them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError


def required_features(target: Any) -> tuple[str, ...]:
    """Return the CPU features that code for a TVM target needs, in LLVM's names, sorted.

    The target is a ``tvm.target.Target`` of kind ``llvm``, or an argument to make one.
    """
    import tvm
    from tvm.target.codegen import llvm_get_cpu_features

    from runtime_ext.native_library import load_native_library

    if not isinstance(target, tvm.target.Target):
        target = tvm.target.Target(target)
    features: Any = llvm_get_cpu_features(target)
    decisive = map(str, load_native_library()["known_features"]())
    return tuple(sorted({str(name) for name in features} & set(decisive)))


def missing_features(required: Sequence[str]) -> tuple[str, ...]:
    """Return the features, in LLVM's names, that this machine is known to lack."""
    from runtime_ext.native_library import load_native_library

    return tuple(map(str, load_native_library()["missing_features"](list(required))))


def host_flags() -> frozenset[str]:
    """Return the flags in ``/proc/cpuinfo``, without those of AMX if Linux does not permit it.

    Raise UserError if there are none.
    """
    try:
        flags = flags_of(Path("/proc/cpuinfo").read_text())
    except OSError as error:
        raise UserError(f"the features of this CPU cannot be read: {error}") from error
    if "amx_tile" in flags and missing_features(["amx-tile"]):
        return frozenset(flag for flag in flags if not flag.startswith("amx_"))
    return flags


def flags_of(cpuinfo: str) -> frozenset[str]:
    """Return the flags (Arm: features) in the text of ``/proc/cpuinfo``.

    Raise UserError if there are none.
    """
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    raise UserError("the features of this CPU cannot be read: /proc/cpuinfo names none")
