"""Which function makes the rows of which table or figure of memory-aware scheduling."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm_ios.papers.memory import peaks
from tvm_ios.papers.registry import MakeRows

ROWS: Mapping[str, MakeRows] = MappingProxyType(
    {
        "memory-aware-scheduling/table-2": peaks.peaks,
    }
)
