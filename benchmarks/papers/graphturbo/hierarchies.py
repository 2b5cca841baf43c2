"""The configurations of accelerators that simulations use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.papers.row import How, Row
from benchmarks.papers.steps import Steps
from tvm_ios.devices.memory_hierarchy import MemoryHierarchy, load_hierarchy

_HIERARCHIES = {"Habana Goya": "goya", "STCP920": "stcp920"}


def configurations(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Clusters, cores, units and buffers of accelerators (GraphTurbo, figure 1 and equation 2)."""
    for accelerator, values in published.items():
        described = _figures(load_hierarchy(_HIERARCHIES[accelerator]))
        for quantity, value in values.items():
            yield Row(f"{accelerator}, {quantity}", value, described[quantity], "", How.COUNTED)


def _figures(hierarchy: MemoryHierarchy) -> dict[str, float]:
    return {
        "clusters": hierarchy.clusters,
        "cores": hierarchy.cores,
        "compute units": hierarchy.compute_units,
        "L1, KB": hierarchy.local_buffer / 1024,
        "LLB, MB": hierarchy.global_buffer / 1024**2,
    }
