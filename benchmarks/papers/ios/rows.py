"""Which function makes the rows of which table or figure of IOS."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from benchmarks.papers.ios import background, counts, latencies, specialised, utilisation
from benchmarks.papers.registry import MakeRows

ROWS: Mapping[str, MakeRows] = MappingProxyType(
    {
        "ios-thesis/figure-1.1": background.trends,
        "ios-thesis/figure-1.2": utilisation.four_convolutions,
        "ios-thesis/figure-2.3": background.low_occupancy,
        "ios-thesis/figure-3.4": background.example,
        "ios-thesis/figure-3.5": background.tight_bound,
        "ios-thesis/table-3.1": counts.largest_blocks,
        "ios-thesis/table-4.1": counts.networks,
        "ios-thesis/figure-4.1": latencies.schedules,
        "ios-thesis/figure-4.3": utilisation.active_warps,
        "ios-thesis/figure-4.4": latencies.on_another_gpu,
        "ios-thesis/figure-4.6": latencies.pruning,
        "ios-thesis/table-4.2": specialised.specialised,
        "ios-thesis/figure-4.7": specialised.last_block,
        "ios-thesis/figure-4.8": latencies.blocks,
        "ios-thesis/figure-4.9": latencies.throughput,
    }
)
