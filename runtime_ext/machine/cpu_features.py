"""Which instructions a target's code uses, and which this machine has.

The features that decide are listed in ``runtime_ext/native/cpu_features.cc`` alone: the C++ loader
asks for them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError


def required_features(target: Any) -> tuple[str, ...]:
    """What code for a TVM target needs of a CPU, in LLVM's names, sorted.

    Parameters
    ----------
    target
        A ``tvm.target.Target`` of kind ``llvm``, or what makes one.
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
    """Which of some features, in LLVM's names, this machine does not have, as far as is known."""
    from runtime_ext.native_library import load_native_library

    return tuple(map(str, load_native_library()["missing_features"](list(required))))


def host_flags() -> frozenset[str]:
    """The flags in ``/proc/cpuinfo``, without those of AMX where Linux does not let it be used.

    Raises
    ------
    UserError
        If there are none.
    """
    try:
        flags = flags_of(Path("/proc/cpuinfo").read_text())
    except OSError as error:
        raise UserError(f"the features of this CPU cannot be read: {error}") from error
    if "amx_tile" in flags and missing_features(["amx-tile"]):
        return frozenset(flag for flag in flags if not flag.startswith("amx_"))
    return flags


def flags_of(cpuinfo: str) -> frozenset[str]:
    """The flags by the text of ``/proc/cpuinfo``; x86 calls them so, Arm features.

    Raises
    ------
    UserError
        If there are none.
    """
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    raise UserError("the features of this CPU cannot be read: /proc/cpuinfo names none")
