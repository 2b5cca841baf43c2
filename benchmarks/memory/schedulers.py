"""Peak memory: every scheduler on the published networks, and proofs on random graphs.

Without arguments all of it is measured; ``--random`` leaves the networks out, names of
networks leave the random graphs out, and ``--scheduler`` other schedulers of networks. Seconds
are of one core.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from typing import Any

from rich.table import Table

from benchmarks.report import read_figures, update_result
from tvm_ios.api import load_operators
from tvm_ios.cli.frame.output import console
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.memory.comparison import compare_schedulers
from tvm_ios.memory.footprint import Counting
from tvm_ios.memory.operators import with_activations, with_biases
from tvm_ios.memory.problem import memory_problem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
from tvm_ios.zoo import MEMORY_NETWORKS


def random_dag(seed: int) -> OpGraph:
    """40 to 120 operators; how far they reach back and how many inputs they have is drawn."""
    rng = random.Random(seed)
    operators = rng.randint(40, 120)
    reach, inputs = rng.choice((5, 10, 20, operators)), rng.choice((1.2, 1.5, 2.0, 3.0))
    tensors = [Tensor("in", (64 * rng.randint(1, 64),))]
    added: list[Operator] = []
    for number in range(operators):
        pool = range(max(0, len(tensors) - reach), len(tensors))
        count = min(len(pool), max(1, round(rng.expovariate(1 / inputs))))
        tensors.append(Tensor(f"t{number}", (64 * rng.randint(1, 64),)))
        read = tuple(rng.sample(pool, count))
        added.append(Operator(f"op{number}", "conv2d", read, (number + 1,)))
    return _graph(f"dag_{seed}", tensors, added)


def random_nas(seed: int, operators: int = 2000) -> OpGraph:
    """Cells of one random genotype, each reading the two before it, smaller from third to third."""
    rng = random.Random(seed)
    blocks = rng.randint(4, 7)
    genotype = [
        [(rng.randrange(2 + block), rng.choice((1, 2, 4, 6))) for _ in range(2)]
        for block in range(blocks)
    ]
    tensors, added = [Tensor("in", (2**12,))], list[Operator]()

    def add(kind: str, *read: int, size: int) -> int:
        tensors.append(Tensor(f"t{len(added)}", (size,)))
        added.append(Operator(f"op{len(added)}", kind, read, (len(tensors) - 1,)))
        return len(tensors) - 1

    before = last = add("conv2d", 0, size=2**13)
    while len(added) < operators:
        size = 2**11 >> min(2, 3 * len(added) // operators)
        states = [add("conv2d", before, size=size), add("conv2d", last, size=size)]
        for branches in genotype:
            ends: list[int] = []
            for source, length in branches:
                value = states[source]
                for _ in range(length):
                    value = add("conv2d", value, size=size)
                ends.append(value)
            states.append(add("add", *ends, size=size))
        read = {t for op in added for t in op.inputs}
        loose = [state for state in states if state not in read]
        before, last = last, add("concat", *loose, size=size * len(loose))
    return _graph(f"nas_{seed}", tensors, added)


def _graph(name: str, tensors: list[Tensor], operators: list[Operator]) -> OpGraph:
    read = {t for op in operators for t in op.inputs}
    outputs = tuple(t for t in range(1, len(tensors)) if t not in read)
    return OpGraph(name, tuple(operators), tuple(tensors), (0,), outputs)


def measured(operators: OpGraph, names: list[str], limit: float) -> Iterator[dict[str, Any]]:
    graph = with_biases(operators)
    for in_place, fused in ((False, False), (True, False), (False, True)):
        graph = with_activations(operators) if fused else graph
        for row in compare_schedulers(memory_problem(graph, Counting(in_place)), names, limit):
            ordered = row.ordered
            yield {
                "model": graph.name,
                "in_place": in_place,
                "activations_fused": fused,
                "name": row.name,
                "peak_kib": ordered.peak / 1024,
                "bound_kib": ordered.bound / 1024,
                "arena_kib": row.arena.plan.nbytes / 1024,
                "seconds": ordered.seconds,
                "operators": ordered.operators,
                "fused_operators": ordered.fused_operators,
                "proof": ordered.proven,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", help="of the zoo; by default the published ones")
    parser.add_argument("--random", action="store_true", help="only the random graphs")
    parser.add_argument(
        "--scheduler", nargs="+", choices=MEMORY_SCHEDULERS, default=list(MEMORY_SCHEDULERS)
    )
    parser.add_argument("--dags", type=int, default=100)
    parser.add_argument("--nas", type=int, default=10)
    parser.add_argument("--limit", type=float, default=30.0, help="seconds of each scheduler")
    given = parser.parse_args()
    for model in given.networks or (() if given.random else MEMORY_NETWORKS):
        print(f"== {model}", flush=True)
        rows = measured(load_operators(model), given.scheduler, given.limit)
        rows = [{**row, "model": model} for row in rows]
        update_result("memory", rows, "model", "in_place", "activations_fused", "name")
    if not given.networks:
        graphs = [*map(random_dag, range(given.dags)), *map(random_nas, range(given.nas))]
        for graph in graphs:
            print(f"== {graph.name}", flush=True)
            rows = list(measured(graph, ["rpo", "optimal"], given.limit))
            update_result("memory_random", rows, "model", "in_place", "activations_fused", "name")
    for result in ("memory", "memory_random"):
        _print(result)


def _print(result: str) -> None:
    table = Table("network", "in place", "fused", "scheduler", "peak KiB", "arena KiB", "bound KiB")
    for column in ("gap", "seconds", "operators", "fused", "proof"):
        table.add_column(column)
    for row in read_figures(result):
        sizes = (row["peak_kib"], row["arena_kib"], row["bound_kib"])
        table.add_row(
            row["model"],
            "yes" if row["in_place"] else "no",
            "yes" if row["activations_fused"] else "no",
            row["name"],
            *(f"{size:,.1f}" for size in sizes),
            f"{row['peak_kib'] / row['bound_kib'] - 1:.1%}",
            f"{row['seconds']:.2f}",
            str(row["operators"]),
            str(row["fused_operators"]),
            "yes" if row["proof"] else "no",
        )
    console().print(table)


if __name__ == "__main__":
    main()
