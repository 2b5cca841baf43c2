"""Which function makes the rows of which table or figure of Rammer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from benchmarks.papers.rammer import fine_grained, models, performance
from benchmarks.papers.registry import MakeRows

ROWS: Mapping[str, MakeRows] = MappingProxyType(
    {
        "rammer-osdi20/table-1": models.parameters,
        "rammer-osdi20/figure-11": performance.speed_ups,
        "rammer-osdi20/figure-14": performance.utilisation,
        "rammer-osdi20/figure-16": performance.overhead,
        "rammer-osdi20/figure-17": performance.kernel_sets,
        "rammer-osdi20/figure-18": fine_grained.modules,
        "rammer-osdi20/figure-19": performance.speed_ups_on_mi50,
    }
)
