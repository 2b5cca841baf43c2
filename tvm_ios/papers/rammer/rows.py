"""Which function makes the rows of which table or figure of Rammer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tvm_ios.papers.rammer import models
from tvm_ios.papers.registry import MakeRows

ROWS: Mapping[str, MakeRows] = MappingProxyType(
    {
        "rammer-osdi20/table-1": models.parameters,
    }
)
