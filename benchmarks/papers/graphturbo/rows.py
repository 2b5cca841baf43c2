"""Which function makes the rows of which table or figure of GraphTurbo."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from benchmarks.papers.graphturbo import figures, hierarchies, tables
from benchmarks.papers.registry import MakeRows

ROWS: Mapping[str, MakeRows] = MappingProxyType(
    {
        "graphturbo-osdi23/figure-1": hierarchies.configurations,
        "graphturbo-osdi23/figure-2": figures.stage_two,
        "graphturbo-osdi23/figure-3": figures.order_of_resnet,
        "graphturbo-osdi23/table-1": tables.by_batch,
        "graphturbo-osdi23/table-2": tables.models,
        "graphturbo-osdi23/figure-14": figures.speed_ups,
        "graphturbo-osdi23/figure-15": figures.contributions,
        "graphturbo-osdi23/table-3": tables.levels,
        "graphturbo-osdi23/figure-16": figures.engines_by_batch,
        "graphturbo-osdi23/figure-17": figures.engines_by_stage,
        "graphturbo-osdi23/table-4": tables.compilation,
        "graphturbo-osdi23/figure-18": figures.tailored_resnet,
        "graphturbo-osdi23/table-5": tables.on_a_gpu,
    }
)
