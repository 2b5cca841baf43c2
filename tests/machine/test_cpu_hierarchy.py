from __future__ import annotations

from runtime_ext.cpu.hierarchy import cpu_hierarchy
from runtime_ext.machine.hardware import caches


def test_this_machine() -> None:
    hierarchy = cpu_hierarchy(2)
    sizes = {cache.level: cache.size for cache in caches()}
    assert hierarchy.cores == 2
    assert hierarchy.local_buffer == sizes.get(2, 1 << 20)
    assert hierarchy.global_buffer >= hierarchy.local_buffer
    assert min(hierarchy.peak_flops, hierarchy.memory_bandwidth) > 0
    # What is computed in a cycle takes as many of them: the clock is that of the measurement.
    assert hierarchy.peak_flops <= hierarchy.local_bandwidth * (1 + 1e-9)
    assert all(s.startswith(("read", "measured", "assumed")) for s in hierarchy.sources.values())
