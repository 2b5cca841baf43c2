from __future__ import annotations

from runtime_ext.cpu.hierarchy import cpu_hierarchy
from runtime_ext.machine.hardware import caches


def test_this_machine() -> None:
    found = cpu_hierarchy(2)
    sizes = {cache.level: cache.size for cache in caches()}
    assert found.cores == 2
    assert found.local_buffer == sizes.get(2, 1 << 20)
    assert found.global_buffer >= found.local_buffer
    assert min(found.peak_flops, found.memory_bandwidth) > 0
    # What is computed in a cycle takes as many of them: the clock is that of the measurement.
    assert found.peak_flops <= found.local_bandwidth * (1 + 1e-9)
    assert all(s.startswith(("read", "measured", "assumed")) for s in found.sources.values())
