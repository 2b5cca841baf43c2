"""Which function makes the rows of which table or figure of memory-aware scheduling."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm_ios.papers.memory import peaks, structure
from tvm_ios.papers.registry import MakeRows

ROWS: Mapping[str, MakeRows] = MappingProxyType(
    {
        "memory-aware-scheduling/figure-6": structure.high_resolution_block,
        "memory-aware-scheduling/figure-7": structure.peak_positions,
        "memory-aware-scheduling/table-2": peaks.peaks,
    }
)
