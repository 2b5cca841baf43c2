"""What to write beside every measurement: the machine that it holds for, and what it can do."""

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
from runtime_ext.machine.this_machine import instruction_level, processor

#: What measurements depend on wherever they are taken.
_PACKAGES = ("tvm-ios", "apache-tvm", "apache-tvm-ffi", "numpy", "onnx")


def describe_machine(lanes: int, packages: Sequence[str] = ()) -> dict[str, Any]:
    """This machine as plain data; takes a second or two, because its peak is measured.

    Parameters
    ----------
    lanes
        Threads of what is measured.
    packages
        Distributions whose versions matter too.

    Returns
    -------
    dict
        Sizes in KiB and GiB, the clock rate in MHz (null where it is not told), the peak in
        GFLOP/s and GB/s of one lane and of all, of none where TVM is one for Relay, which cannot
        make the kernels; a version is null where a distribution is not installed.
    """
    return {
        "processor": processor(),
        "instruction_level": instruction_level(),
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
        # A TVM that was built from source, or that another package carries.
        import tvm

        return tvm.__version__ if name == "apache-tvm" else None
