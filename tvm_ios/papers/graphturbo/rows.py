"""Which function makes the rows of which table or figure of GraphTurbo."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm_ios.papers.graphturbo import hierarchies, structure
from tvm_ios.papers.registry import MakeRows

ROWS: Mapping[str, MakeRows] = MappingProxyType(
    {
        "graphturbo-osdi23/figure-1": hierarchies.configurations,
        "graphturbo-osdi23/figure-2": structure.second_stage,
    }
)
