"""Describe the machine on which measurements are taken, and its peak performance."""

from __future__ import annotations

import datetime
import importlib.util
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Any

from runtime_ext.machine.hardware import caches, megahertz, total_memory
from runtime_ext.machine.this_machine import host_level, processor

#: Packages on which measurements depend on any machine.
_PACKAGES = ("tvm-ios", "apache-tvm", "apache-tvm-ffi", "numpy", "onnx")


def describe_machine(lanes: int, packages: Sequence[str] = ()) -> dict[str, Any]:
    """Describe this machine as plain data; measuring its peak takes a second or two.

    ``lanes`` are the threads of the measurement, ``packages`` further distributions whose versions
    are listed (null if not installed). The clock is in MHz (null if unknown); the peak, in GFLOP/s
    and GB/s, is of one lane and of all, and empty under a TVM for Relay, which has no such kernels.
    """
    return {
        "processor": processor(),
        "instruction_level": host_level().name,
        "cpus": len(os.sched_getaffinity(0)),
        "lanes": lanes,
        "mhz": megahertz(),
        "caches": [
            {"level": cache.level, "kib": cache.size / 1024, "count": cache.count}
            for cache in caches()
        ],
        "memory_gib": round(total_memory() / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in dict.fromkeys((*_PACKAGES, *packages))},
        "peak": _peaks(lanes),
        "date": datetime.date.today().isoformat(),
    }


def _peaks(lanes: int) -> dict[str, dict[str, float]]:
    if importlib.util.find_spec("tvm.tirx") is None:
        return {}
    from runtime_ext.cpu.peak import measured_peak

    return {str(n): asdict(measured_peak(n)) for n in dict.fromkeys((1, lanes))}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        # TVM may be built from source, or come with another package: ask it for its version.
        import tvm

        return tvm.__version__ if name == "apache-tvm" else None
