"""Which function makes the rows of which table or figure of memory-aware scheduling."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from benchmarks.papers.memory import peaks, programs, structure
from benchmarks.papers.registry import MakeRows

ROWS: Mapping[str, MakeRows] = MappingProxyType(
    {
        "memory-aware-scheduling/figure-6": structure.high_resolution_block,
        "memory-aware-scheduling/figure-7": structure.peak_positions,
        "memory-aware-scheduling/table-2": peaks.peaks,
        "memory-aware-scheduling/table-3": peaks.seconds,
        "memory-aware-scheduling/figure-9": structure.graph_scales,
        "memory-aware-scheduling/table-4": programs.ablation,
        "memory-aware-scheduling/table-5": programs.partitions,
        "memory-aware-scheduling/table-6": programs.numbers_of_parts,
    }
)
