"""This machine's CPU as a memory hierarchy, read at run time."""

from __future__ import annotations

import importlib.util

from runtime_ext.machine.hardware import Cache, caches, megahertz
from runtime_ext.machine.this_machine import host_level
from tvm_ios.devices.memory_hierarchy import MemoryHierarchy

#: Bytes a cycle that a core reads from its caches if nothing is known: a vector, and a quarter of
#: one.
_L2_BYTES, _L3_BYTES = 64, 16
_L2, _L3 = 1 << 20, 8 << 20
#: The most bytes of memory that a core moves in a cycle (assumed if this TVM has no kernels to
#: measure it).
_MEMORY_BYTES = 4


def cpu_hierarchy(lanes: int) -> MemoryHierarchy:
    """Describe this CPU as one cluster of ``lanes`` cores: L2 the local buffer, L3 the global one.

    The peak and the memory's bandwidth are measured, which takes about a second, or assumed with a
    TVM up to 0.19, that of Relay.
    """
    cache_by_level = {cache.level: cache for cache in caches()}
    hertz = (megahertz() or 2000.0) * 1e6
    flops_a_cycle = host_level().flops
    if importlib.util.find_spec("tvm.tirx"):
        from runtime_ext.cpu.peak import measured_peak

        peak = measured_peak(lanes)
        flops, bandwidth = peak.gflops * 1e9, peak.gbps * 1e9
        flops_source, bandwidth_source = "measured: multiply-adds in registers", "measured: a triad"
        # Virtual machines report the base clock; the measured peak may need a higher one.
        hertz = max(hertz, flops / lanes / flops_a_cycle)
    else:
        flops, bandwidth = flops_a_cycle * hertz * lanes, _MEMORY_BYTES * hertz * lanes
        flops_source, bandwidth_source = (
            f"assumed: {n} {what} a cycle and core"
            for n, what in ((flops_a_cycle, "FLOPs"), (_MEMORY_BYTES, "bytes"))
        )
    local, local_source = _size(cache_by_level.get(2), _L2)
    shared, shared_source = _size(cache_by_level.get(3), _L3)
    return MemoryHierarchy(
        name="cpu",
        description=f"this machine's CPU, {lanes} lanes",
        clusters=1,
        cores=lanes,
        compute_units=1,
        local_buffer=local,
        global_buffer=shared,
        memory_bandwidth=bandwidth,
        global_bandwidth=_L3_BYTES * hertz * lanes,
        local_bandwidth=_L2_BYTES * hertz * lanes,
        peak_flops=flops,
        vector_flops=flops,
        kernel_overhead=0.5e-6,
        weight_clusters=1,
        sources={
            "clusters": "read: one process",
            "cores": "read: lanes",
            "compute_units": "assumed: vector units are not told apart",
            "local_buffer": local_source,
            "global_buffer": shared_source,
            "memory_bandwidth": bandwidth_source,
            "global_bandwidth": f"assumed: {_L3_BYTES} bytes a cycle and core",
            "local_bandwidth": f"assumed: {_L2_BYTES} bytes a cycle and core",
            "peak_flops": flops_source,
            "vector_flops": "assumed: as convolutions",
            "kernel_overhead": "assumed: a step of a lane and a wait",
            "weight_clusters": "read: one process",
        },
    )


def _size(cache: Cache | None, assumed: int) -> tuple[int, str]:
    return (assumed, "assumed") if cache is None else (cache.size, "read: from the system")
