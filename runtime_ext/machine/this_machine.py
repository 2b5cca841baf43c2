"""This machine: how many lanes it has, and the target to compile for."""

from __future__ import annotations

import math
import os
import platform
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from runtime_ext.machine.cpu_features import host_flags
from tvm_ios.errors import UserError

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


def available_lanes() -> int:
    """Threads that can run at once: CPUs of the affinity mask, within the container's quota."""
    cpus = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return cpus if quota is None else max(1, min(cpus, int(quota)))


def cpu_quota(
    groups: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> float | None:
    """CPUs' worth of time that control groups allow, or None without a limit.

    The least limit of this process's group and of those around it, of version 1 or 2, as the
    executor reads it.

    Parameters
    ----------
    groups
        Where the file systems of the groups are mounted.
    membership
        Which groups this process is in.
    """
    from runtime_ext.native_library import load_native_library

    quota = load_native_library()["cpu_quota"](str(groups), str(membership))
    return None if math.isinf(quota) else quota


@cache
def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown processor"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown processor"


def instruction_level() -> str:
    """The best of :data:`LEVELS` that this machine has.

    Raises
    ------
    UserError
        If it has none, or is of another architecture.
    """
    if platform.machine() != "x86_64":
        raise UserError(
            "kernels are made for x86-64 with SSE 4.2 or better; "
            f"this machine is {platform.machine()}"
        )
    for level, flags in LEVELS.items():
        if flags <= host_flags():
            return level
    raise UserError("kernels are made for x86-64 with SSE 4.2 or better; this machine has less")


def level_of(processor: str) -> str:
    """The level that a target's processor stands for; another processor as it is."""
    return next((level for level, name in PROCESSORS.items() if name == processor), processor)


def host_target(lanes: int, level: str | None = None) -> tvm.target.Target:
    """A TVM target for this machine, or for an instruction-set level."""
    import tvm

    mcpu = level or instruction_level()
    return tvm.target.Target({"kind": "llvm", "mcpu": mcpu, "num-cores": lanes})


def device_name(lanes: int) -> str:
    """The name of this machine in schedules and logs."""
    return f"{processor()}, {instruction_level()}, {lanes} lanes"


def cache_folder() -> Path:
    """The folder of kernels and logs kept between runs: ``TVM_IOS_CACHE`` or the user's cache."""
    if chosen := os.environ.get("TVM_IOS_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tvm-ios"
