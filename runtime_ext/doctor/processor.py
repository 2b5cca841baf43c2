"""Check the processor, how much of it this process may use, its load, and GPUs."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

from runtime_ext.doctor.check import Check, Status
from runtime_ext.isa.levels import highest_level
from runtime_ext.isa.x86 import V2
from runtime_ext.machine.cpu_features import host_features
from runtime_ext.machine.this_machine import available_lanes, cpu_quota, host_level, processor
from tvm_ios.errors import UserError


def check_processor() -> Iterator[Check]:
    """Check that kernels can be compiled for the processor, and name its instruction-set level."""
    try:
        level = host_level()
    except UserError as error:
        remedy = "use a machine with x86-64 and SSE 4.2, better AVX2 or AVX-512, or 64-bit Arm"
        yield Check("processor", Status.PROBLEM, f"{processor()}: {error}", remedy)
        return
    detail = f"{processor()}: kernels are made for {level.name}"
    lacking = ", ".join(sorted(highest_level(level.machine).features - host_features()))
    if level is V2:
        remedy = "expect slow kernels: without AVX2 vectors have four numbers"
        yield Check("processor", Status.WARNING, f"{detail}; it lacks AVX2 and FMA", remedy)
    else:
        yield Check("processor", Status.OK, f"{detail} (it lacks {lacking})" if lacking else detail)


def check_lanes() -> Iterator[Check]:
    """Check how many threads can run at once, and whether other work keeps the CPUs busy."""
    machine, allowed = os.cpu_count() or 1, len(os.sched_getaffinity(0))
    quota = cpu_quota()
    limit = "no container quota" if quota is None else f"a container quota of {quota:g}"
    detail = f"{available_lanes()}: {machine} CPUs, {allowed} allowed to this process, {limit}"
    if quota is not None and quota < allowed and quota != int(quota):
        remedy = (
            "give the container a whole number of CPUs: a lane that is stopped delays the others"
        )
        yield Check("lanes", Status.WARNING, detail, remedy)
    else:
        yield Check("lanes", Status.OK, detail)
    load = os.getloadavg()[0]
    busy = f"{load:.1f} threads wanted a CPU in the last minute"
    # The load includes this process and its children.
    if load > allowed / 2 + 1:
        remedy = "optimize, tune and bench when nothing else runs, or the wrong schedule wins"
        yield Check("load", Status.WARNING, busy, remedy)
    else:
        yield Check("load", Status.OK, busy)


def check_gpu() -> Iterator[Check]:
    """Report the NVIDIA GPUs that the driver finds."""
    names = gpu_names()
    if names is None:
        yield Check("gpu", Status.OK, "no NVIDIA driver; none is needed")
    elif not names:
        yield Check("gpu", Status.OK, "an NVIDIA driver, but no GPU; none is needed")
    else:
        detail = f"{', '.join(names)}: --target cuda compiles for these and measures on them"
        yield Check("gpu", Status.OK, detail)


def gpu_names() -> list[str] | None:
    """Return the names of the GPUs, or None without a driver (``libcuda``)."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    names: list[str] = []
    for number in range(count.value):
        device, text = ctypes.c_int(0), ctypes.create_string_buffer(256)
        if driver.cuDeviceGet(ctypes.byref(device), number) == 0:
            driver.cuDeviceGetName(text, len(text), device)
            names.append(text.value.decode(errors="replace"))
    return names
