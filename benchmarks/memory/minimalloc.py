"""Placing: the eleven hard arenas of MiniMalloc's authors, and ten harder ones of the same kind.

Each is placed within its capacity, which is known to suffice; seconds are of one core. A bound of
the capacity proves that no arena is smaller.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.memory.hard_arenas import KINDS, MIB, HardArena, hard_arena
from benchmarks.report import read_figures, update_result
from tvm_ios.cli.frame.output import console
from tvm_ios.memory.arena import plan_intervals
from tvm_ios.program.arena.solver import SolverLimits

_FOLDER = Path(__file__).parents[2] / "tests" / "golden" / "minimalloc"


def arenas() -> Iterator[HardArena]:
    """Yield the published ones, then the harder ones."""
    for path in sorted(_FOLDER.glob("*.csv")):
        with path.open() as file:
            rows = list(csv.DictReader(file))
        lower, upper, size = (
            [int(row[column]) for row in rows] for column in ("lower", "upper", "size")
        )
        yield HardArena(path.name.split(".")[0], lower, upper, size)
    yield from map(hard_arena, range(len(KINDS)))


def placed(arena: HardArena, limit: float) -> dict[str, Any]:
    """Return the row of an arena that is placed within a limit of seconds.

    Where it is not found to fit, the smallest one is searched for as long again.
    """
    lower, upper, size = (np.asarray(c, np.int64) for c in (arena.lower, arena.upper, arena.size))
    numbers = np.arange(len(size))
    begin = time.perf_counter()
    limits = SolverLimits(seconds=limit, enough=arena.capacity)
    plan = plan_intervals(numbers, size, lower, upper, 1, limits)
    seconds = time.perf_counter() - begin
    if plan.plan.nbytes > arena.capacity:
        plan = plan_intervals(numbers, size, lower, upper, 1, SolverLimits(seconds=limit))
    return {
        "arena": arena.name,
        "buffers": len(size),
        "capacity_bytes": arena.capacity,
        "arena_bytes": plan.plan.nbytes,
        "bound_bytes": plan.bound,
        "fits": plan.plan.nbytes <= arena.capacity,
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("arenas", nargs="*", help="names of arenas, by default all")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of each arena")
    given = parser.parse_args()
    for arena in arenas():
        if given.arenas and arena.name not in given.arenas:
            continue
        print(f"== {arena.name}", flush=True)
        update_result("minimalloc", [placed(arena, given.limit)], "arena")
    table = Table("arena", "buffers", "bytes / capacity", "bound / capacity", "fits", "seconds")
    for row in read_figures("minimalloc"):
        table.add_row(
            row["arena"],
            str(row["buffers"]),
            f"{row['arena_bytes'] / MIB:.4f}",
            f"{row['bound_bytes'] / MIB:.4f}",
            "yes" if row["fits"] else "no",
            f"{row['seconds']:.2f}",
        )
    console().print(table)


if __name__ == "__main__":
    main()
