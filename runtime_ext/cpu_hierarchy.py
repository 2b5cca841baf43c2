"""This machine's CPU as a memory hierarchy, read at run time."""

from __future__ import annotations

from runtime_ext.hardware import Cache, caches, megahertz
from runtime_ext.peak import measured_peak
from tvm_ios.memory_hierarchy import MemoryHierarchy

#: Bytes that a core's caches give in a cycle where nobody says more: a vector, a quarter of one.
_L2_BYTES, _L3_BYTES = 64, 16
_L2, _L3 = 1 << 20, 8 << 20


def cpu_hierarchy(lanes: int) -> MemoryHierarchy:
    """One cluster of so many cores: a core's own L2 is its local buffer, L3 the global one.

    The peak and the memory's bandwidth are measured, which takes about a second.

    Parameters
    ----------
    lanes
        Cores that run side by side.
    """
    found = {cache.level: cache for cache in caches()}
    peak = measured_peak(lanes)
    hertz = (megahertz() or 2000.0) * 1e6
    local, of_local = _size(found.get(2), _L2)
    shared, of_shared = _size(found.get(3), _L3)
    return MemoryHierarchy(
        name="cpu",
        description=f"this machine's CPU, {lanes} lanes",
        clusters=1,
        cores=lanes,
        compute_units=1,
        local_buffer=local,
        global_buffer=shared,
        memory_bandwidth=peak.gbps * 1e9,
        global_bandwidth=_L3_BYTES * hertz * lanes,
        local_bandwidth=_L2_BYTES * hertz * lanes,
        peak_flops=peak.gflops * 1e9,
        kernel_overhead=0.5e-6,
        sources={
            "clusters": "read: one process",
            "cores": "read: lanes",
            "compute_units": "assumed: vector units are not told apart",
            "local_buffer": of_local,
            "global_buffer": of_shared,
            "memory_bandwidth": "measured: a triad",
            "global_bandwidth": f"assumed: {_L3_BYTES} bytes a cycle and core",
            "local_bandwidth": f"assumed: {_L2_BYTES} bytes a cycle and core",
            "peak_flops": "measured: multiply-adds in registers",
            "kernel_overhead": "assumed: a step of a lane and a wait",
        },
    )


def _size(cache: Cache | None, assumed: int) -> tuple[int, str]:
    return (assumed, "assumed") if cache is None else (cache.size, "read: from the system")
