"""Which function makes the rows of which table or figure of IOS."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm_ios.papers.ios import counts
from tvm_ios.papers.registry import MakeRows

ROWS: Mapping[str, MakeRows] = MappingProxyType(
    {
        "ios-thesis/table-3.1": counts.largest_blocks,
        "ios-thesis/table-4.1": counts.networks,
    }
)
