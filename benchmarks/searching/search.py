"""Search alone: seconds of the dynamic program and of counting, no measuring."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.table import Table

from benchmarks.report import write_result
from tvm_ios.cli.frame.output import console
from tvm_ios.costs.named import described_costs
from tvm_ios.devices.device import load_device
from tvm_ios.devices.engine import IOS, load_engine
from tvm_ios.ios.counts import count_block
from tvm_ios.models.bare_graph import load_bare_graph
from tvm_ios.models.load import load_blocks, load_graph
from tvm_ios.policies.policy import Limits, Problem
from tvm_ios.search import search

#: The published block graphs, where they lie beside the checkout.
PUBLISHED = Path(__file__).parents[3] / "shared/data/ios-graphs"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    figures = []
    for model in ("squeezenet", "inception_v3", "nasnet_a", "randwire"):
        graph = load_graph(model)
        for reuse in (True, False):
            costs = described_costs(load_device("v100"), load_engine(IOS))
            result = search(Problem.of(graph, 40), "ios-both", costs, Limits(reuse=reuse))
            assert result.statistics is not None
            figures.append(
                {
                    "what": f"search, r=3 s=8, {'equal blocks once' if reuse else 'every block'}",
                    "model": model,
                    "seconds": result.statistics.seconds,
                    "transitions": result.statistics.transitions,
                    "stages": len(result.schedule.stages),
                }
            )
    for model in ("squeezenet", "inception_v3", "nasnet_a", "randwire"):
        published = PUBLISHED / f"{model}.json"
        origin = "published graph" if published.exists() else "zoo"
        if published.exists():
            blocks_of = [b.predecessors for b in load_bare_graph(published).blocks]
        else:
            _, blocks_of = load_blocks(model, 40)
        for groups in ("rooted", "connected"):
            begin = time.perf_counter()
            counts = [count_block(block, groups) for block in blocks_of]
            figures.append(
                {
                    "what": f"stats, {groups}, {origin}",
                    "model": model,
                    "seconds": time.perf_counter() - begin,
                    "transitions": max(c.transitions for c in counts),
                    "stages": None,
                }
            )
    table = Table("what", "network", "seconds", "transitions", "stages")
    for row in figures:
        stages = "" if row["stages"] is None else str(row["stages"])
        table.add_row(
            row["what"], row["model"], f"{row['seconds']:.2f}", f"{row['transitions']:,}", stages
        )
    console().print(table)
    print(write_result("search", figures))


if __name__ == "__main__":
    main()
