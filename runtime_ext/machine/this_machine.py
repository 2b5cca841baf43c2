"""This machine: how many lanes it has, and the target to compile for."""

from __future__ import annotations

import os
from contextlib import suppress
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


def available_lanes() -> int:
    """Threads that can run at once: CPUs of the affinity mask, within the container's quota."""
    cpus = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return cpus if quota is None else max(1, min(cpus, int(quota)))


def cpu_quota(
    groups: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> float | None:
    """CPUs' worth of time that control groups allow, or None without a limit.

    The least limit of this process's group and of those around it, of version 1 or 2.

    Parameters
    ----------
    groups
        Where the file systems of the groups are mounted.
    membership
        Which groups this process is in.
    """
    version_2, version_1 = {groups}, {groups / "cpu"}
    with suppress(OSError):
        for line in membership.read_text().splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if not controllers:
                version_2 |= _group_and_those_around(groups, path)
            elif "cpu" in controllers.split(","):
                version_1 |= _group_and_those_around(groups / "cpu", path)
    limits = [*map(_limit_of_version_2, version_2), *map(_limit_of_version_1, version_1)]
    return min((limit for limit in limits if limit is not None), default=None)


def _group_and_those_around(root: Path, path: str) -> set[Path]:
    """Where a group's files may be.

    A container sees its own group as the root but may read its path outside of it, so some of
    the folders may not be there.
    """
    found, folder = {root}, root
    for part in Path(path.lstrip("/")).parts:
        if part == "..":
            break
        folder /= part
        found.add(folder)
    return found


def _limit_of_version_2(group: Path) -> float | None:
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _limit_of_version_1(group: Path) -> float | None:
    try:
        microseconds = int((group / "cpu.cfs_quota_us").read_text())
        period = int((group / "cpu.cfs_period_us").read_text())
        return microseconds / period if microseconds > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


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
        If it has none.
    """
    for level, flags in LEVELS.items():
        if flags <= host_flags():
            return level
    raise UserError("kernels are made for x86-64 with SSE 4.2 or better; this machine has less")


def host_target(lanes: int, level: str | None = None) -> tvm.target.Target:
    """A TVM target for this machine, or for an instruction-set level."""
    import tvm

    mcpu = level or instruction_level()
    return tvm.target.Target({"kind": "llvm", "mcpu": mcpu, "num-cores": lanes})


def device_name(lanes: int) -> str:
    """What schedules and logs are made for."""
    return f"{processor()}, {instruction_level()}, {lanes} lanes"


def cache_folder() -> Path:
    """Where kernels and logs are kept between runs: ``TVM_IOS_CACHE`` or the user's cache."""
    if chosen := os.environ.get("TVM_IOS_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tvm-ios"
