"""This machine's number of lanes, and the target to compile for."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime_ext.isa.arm import ARM, PARTS
from runtime_ext.isa.isa import Level
from runtime_ext.isa.levels import best_level, level_named
from runtime_ext.machine.cpu_features import host_features

if TYPE_CHECKING:
    import tvm

_UNKNOWN = "unknown processor"


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
    if part := numbers.get("CPU part"):
        implementer = numbers.get("CPU implementer", "?")
        known = PARTS.get(part) if implementer == ARM else None
        return known or f"Arm processor {implementer}:{part}"
    return _UNKNOWN


def host_level() -> Level:
    """Return the best level of this machine; raise UserError if it has none."""
    return best_level(platform.machine(), host_features())


def host_target(
    lanes: int, level: str | None = None, *, forms: Collection[str] = ()
) -> tvm.target.Target:
    """Return a TVM target for this machine, or for an instruction-set level.

    Without ``level`` the target is this machine's, and also has the instructions beyond its level
    that implementations named in ``forms`` use.
    """
    import tvm

    chosen = host_level() if level is None else level_named(level)
    data: dict[str, Any] = {"kind": "llvm", "num-cores": lanes, **chosen.target}
    if level is None and (beyond := chosen.attributes(forms, host_features())):
        data["mattr"] = beyond
    return tvm.target.Target(data)


def announce_lanes(lanes: int) -> None:
    """Tell TVM the number of its threads, which it reads once, when its thread pool starts."""
    os.environ["TVM_NUM_THREADS"] = str(lanes)


def device_name(lanes: int) -> str:
    """Return the name of this machine in schedules and logs."""
    return name_of(processor(), host_level().name, lanes)


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
