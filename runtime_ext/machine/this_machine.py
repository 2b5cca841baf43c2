"""This machine's number of lanes, and the target to compile for."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime_ext.machine.cpu_features import host_flags
from tvm_ios.errors import UserError
from tvm_ios.program.bfloat16 import FORM

if TYPE_CHECKING:
    import tvm

#: Instruction-set levels, best first, with the CPU flags (as Linux names them) they need.
LEVELS: dict[str, frozenset[str]] = {
    "x86-64-v4": frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    "x86-64-v3": frozenset({"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}),
    "x86-64-v2": frozenset({"cx16", "popcnt", "sse4_1", "sse4_2", "ssse3"}),
}

#: A processor of each level: LLVM of older TVMs does not know the levels by name.
PROCESSORS = {"x86-64-v4": "skylake-avx512", "x86-64-v3": "haswell", "x86-64-v2": "nehalem"}
#: The level of 64-bit Arm, and what uname calls such machines.
AARCH64 = "aarch64"
_UNKNOWN = "unknown processor"
#: The form of units whose products are of bytes.
BYTES = "int8"
#: Features that processors may have beyond their level, by the form of units whose products use
#: them: their names in LLVM and in Linux.
_BEYOND: dict[str, dict[str, dict[str, str]]] = {
    "x86-64-v4": {
        FORM: {"avx512bf16": "avx512_bf16", "amx-tile": "amx_tile", "amx-bf16": "amx_bf16"},
        BYTES: {"avx512vnni": "avx512_vnni", "amx-tile": "amx_tile", "amx-int8": "amx_int8"},
    },
    "x86-64-v3": {BYTES: {"avxvnni": "avx_vnni"}},
}


def available_lanes() -> int:
    """Return the number of threads that can run at once: CPUs of the affinity mask or quota."""
    cpus = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return cpus if quota is None else max(1, min(cpus, int(quota)))


def cpu_quota(
    groups: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> float | None:
    """Return the number of CPUs whose time control groups allow, or None without a limit.

    It is the least limit of this process's group and of those around it, of version 1 or 2, as the
    executor reads it. The groups are mounted at ``groups``; ``membership`` is the file that names
    this process's.
    """
    from runtime_ext.native_library import load_native_library

    quota = load_native_library()["cpu_quota"](str(groups), str(membership))
    return None if math.isinf(quota) else quota


@cache
def processor() -> str:
    """Return the processor's name."""
    try:
        return processor_of(Path("/proc/cpuinfo").read_text())
    except OSError:
        return _UNKNOWN


def processor_of(cpuinfo: str) -> str:
    """Return the processor's name in the text of ``/proc/cpuinfo``."""
    lines = cpuinfo.splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    if names:
        return names[0]
    # Arm's processors have no name there, but numbers of the implementer and the part.
    numbers = dict(
        (key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in lines)
    )
    if "CPU part" in numbers:
        return f"Arm processor {numbers.get('CPU implementer', '?')}:{numbers['CPU part']}"
    return _UNKNOWN


def instruction_level() -> str:
    """Return the best of :data:`LEVELS` that this machine supports.

    Raise UserError if it supports none, or is not x86-64.
    """
    if platform.machine() != "x86_64":
        raise UserError(
            "kernels are made for x86-64 with SSE 4.2 or better; "
            f"this machine is {platform.machine()}"
        )
    return best_level(platform.machine(), host_flags())


def best_level(machine: str, flags: frozenset[str]) -> str:
    """Return the best level of a machine, named as by uname, with these CPU flags.

    Raise UserError if it supports none.
    """
    if machine == AARCH64:
        return AARCH64
    for level, needed in LEVELS.items():
        if needed <= flags:
            return level
    raise UserError("kernels are made for x86-64 with SSE 4.2 or better; this machine has less")


def level_of(processor: str) -> str:
    """Return the level that a target's processor is named for; another processor unchanged."""
    return next((level for level, name in PROCESSORS.items() if name == processor), processor)


def host_target(
    lanes: int, level: str | None = None, *, forms: Collection[str] = ()
) -> tvm.target.Target:
    """Return a TVM target for this machine, or for an instruction-set level.

    ``level`` is one of :data:`LEVELS`, or :data:`AARCH64`. Without it the target is this machine's,
    and also has the instructions beyond its level that implementations named in ``forms`` use.
    """
    import tvm

    beyond: list[str] = []
    if level is None:
        level, flags = instruction_level(), host_flags()
        beyond = [
            f"+{llvm}"
            for form, features in _BEYOND.get(level, {}).items()
            if form in forms
            for llvm, linux in features.items()
            if linux in flags
        ]
    data: dict[str, Any] = {"kind": "llvm", "mcpu": level, "num-cores": lanes}
    if level == AARCH64:
        # Every such processor has the vector unit; LLVM calls an unknown one generic.
        data |= {"mtriple": "aarch64-linux-gnu", "mcpu": "generic", "mattr": ["+neon"]}
    elif beyond:
        data["mattr"] = list(dict.fromkeys(beyond))
    return tvm.target.Target(data)


def announce_lanes(lanes: int) -> None:
    """Tell TVM the number of its threads, which it reads once, when its thread pool starts."""
    os.environ["TVM_NUM_THREADS"] = str(lanes)


def device_name(lanes: int) -> str:
    """Return the name of this machine in schedules and logs."""
    return name_of(processor(), instruction_level(), lanes)


def name_of(processor: str, level: str, lanes: int) -> str:
    """Return the name of machines of a kind in schedules and logs."""
    return f"{processor}, {level}, {lanes} lanes"


def cache_folder() -> Path:
    """Return the folder of kernels and logs kept between runs.

    It is ``TVM_IOS_CACHE``, or in the user's cache.
    """
    if chosen := os.environ.get("TVM_IOS_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tvm-ios"
