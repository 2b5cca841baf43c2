"""This machine's processor and memory, as the system describes them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_CPUS = Path("/sys/devices/system/cpu")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Cache:
    """A level of data caches, 1 being nearest to the core.

    ``size`` is the bytes of each cache, ``count`` how many the CPUs of this process have.
    """

    level: int
    size: int
    count: int


def caches() -> tuple[Cache, ...]:
    """Return the data caches of this process's CPUs, nearest first; () if unknown."""
    shared_lists: dict[tuple[int, int], set[str]] = {}
    for cpu in os.sched_getaffinity(0):
        for folder in (_CPUS / f"cpu{cpu}" / "cache").glob("index*"):
            try:
                kind, level, size, shared = (
                    (folder / name).read_text().strip()
                    for name in ("type", "level", "size", "shared_cpu_list")
                )
                if kind != "Instruction":
                    shared_lists.setdefault((int(level), _bytes(size)), set()).add(shared)
            except (OSError, ValueError, KeyError):
                continue
    return tuple(
        Cache(level, size, len(lists)) for (level, size), lists in sorted(shared_lists.items())
    )


def last_level_cache() -> int:
    """Return the bytes of the outermost caches together; 64 MiB if unknown."""
    levels = caches()
    if not levels:
        return 64 << 20
    last = max(cache.level for cache in levels)
    return sum(cache.size * cache.count for cache in levels if cache.level == last)


def total_memory() -> int:
    """Return the bytes of memory that this machine, or its container, has."""
    limit = _container("memory.max")
    total = _meminfo("MemTotal")
    return total if limit is None else min(total, limit)


def available_memory() -> int:
    """Return the bytes of memory that a process could allocate now."""
    free = _meminfo("MemAvailable")
    limit, used = _container("memory.max"), _container("memory.current")
    return free if limit is None or used is None else max(0, min(free, limit - used))


def megahertz() -> float | None:
    """Return the highest clock rate in MHz, or else the present one; None if unknown."""
    try:
        text = (_CPUS / "cpu0/cpufreq/cpuinfo_max_freq").read_text()
        return int(text) / 1e3
    except (OSError, ValueError):
        pass
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return max(float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz"))
    except (OSError, ValueError):
        return None


def _bytes(size: str) -> int:
    return int(size[:-1]) * _UNITS[size[-1]] if size[-1] in _UNITS else int(size)


def _container(name: str) -> int | None:
    """Return a limit of the control group (version 2), or None if there is none."""
    try:
        return int((Path("/sys/fs/cgroup") / name).read_text())
    except (OSError, ValueError):
        return None


def _meminfo(key: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == key:
            return int(value.split()[0]) * 1024
    return 1 << 30
