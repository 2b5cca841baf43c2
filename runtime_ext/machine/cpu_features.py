"""Which instructions a target's code uses, and which this machine has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError

#: LLVM's names of the x86 features that decide whether code runs, and Linux's.
_LINUX_NAME = {
    "sse3": "pni",
    "ssse3": "ssse3",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "popcnt": "popcnt",
    "lzcnt": "abm",
    "movbe": "movbe",
    "f16c": "f16c",
    "fma": "fma",
    "avx": "avx",
    "avx2": "avx2",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "avxvnni": "avx_vnni",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
}


def required_features(target: Any) -> tuple[str, ...]:
    """What code for a TVM target needs of a CPU, in LLVM's names, sorted.

    Parameters
    ----------
    target
        A ``tvm.target.Target`` of kind ``llvm``, or what makes one.
    """
    import tvm
    from tvm.target.codegen import llvm_get_cpu_features

    if not isinstance(target, tvm.target.Target):
        target = tvm.target.Target(target)
    named: Any = llvm_get_cpu_features(target)
    return tuple(sorted(_LINUX_NAME.keys() & {str(name) for name in named}))


def missing_features(required: tuple[str, ...]) -> tuple[str, ...]:
    """Which of some features, in LLVM's names, this machine does not have.

    Raises
    ------
    UserError
        If a name is unknown, or the machine does not tell its features.
    """
    if not required:
        return ()
    for name in required:
        if name not in _LINUX_NAME:
            raise UserError(f"CPU feature {name!r} is not one that can be looked for")
    present = host_flags()
    return tuple(name for name in required if _LINUX_NAME[name] not in present)


def host_flags() -> frozenset[str]:
    """The flags in ``/proc/cpuinfo``.

    Raises
    ------
    UserError
        If there are none.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError as error:
        raise UserError(f"the features of this CPU cannot be read: {error}") from error
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            return frozenset(value.split())
    raise UserError("the features of this CPU cannot be read: /proc/cpuinfo names none")
