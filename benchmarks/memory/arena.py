"""Memory: the arena of every network against its lower bound, and against no sharing.

Nothing is timed but the planning itself, so other work on the machine does no harm. A network
that was planned before is skipped (``--again`` repeats it).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.report import model_of, read_figures, update_result
from relay_passes.load import load_model
from relay_passes.pipeline import apply_schedule
from runtime_ext.build import build
from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.machine.this_machine import available_lanes, cache_folder, host_target
from tvm_ios import zoo
from tvm_ios.cli.frame.output import console
from tvm_ios.models.source import ModelSource
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.program.arena.check import check_arena
from tvm_ios.program.arena.planner import plan_memory

FILES = ("light_inception_v1", "light_inception_v2", "light_densenet121", "light_shufflenet")
POLICIES = {"sequential": sequential_schedule, "greedy": greedy_schedule}


def plan_network(model: str, lanes: int) -> list[dict[str, Any]]:
    seed = 0 if model.endswith(".onnx") else None
    loaded = load_model(ModelSource(model, random_weights=seed))
    prepared = loaded.prepared()
    compiler = KernelCompiler(host_target(lanes), lanes, cache_folder() / "kernels")
    rows = []
    for policy, schedule_of in POLICIES.items():
        schedule = schedule_of(prepared.units)
        program = build(apply_schedule(prepared, schedule), lanes=lanes, compiler=compiler).program
        begin = time.perf_counter()
        memory = plan_memory(program)
        planned = time.perf_counter()
        check_arena(program, memory.plan)
        rows.append(
            {
                "model": Path(model).stem,
                "policy": policy,
                "lanes": lanes,
                "buffers": len(memory.plan.offsets),
                "arena_bytes": memory.plan.nbytes,
                "bound_bytes": memory.bound,
                "unshared_bytes": memory.unshared,
                "ratio": memory.ratio,
                "proven": memory.proven,
                "seconds": planned - begin,
                "check_seconds": time.perf_counter() - planned,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=[*zoo.names(), *FILES])
    parser.add_argument("--lanes", type=int, default=available_lanes())
    parser.add_argument("--again", action="store_true", help="also what was planned before")
    given = parser.parse_args()
    for model in map(model_of, given.networks):
        name = Path(model).stem
        measured = {(row["model"], row["lanes"]) for row in read_figures("arena")}
        if (name, given.lanes) not in measured or given.again:
            print(f"== {name}", flush=True)
            update_result("arena", plan_network(model, given.lanes), "model", "lanes")
    table = Table("network", "policy", "lanes", "buffers", "arena", "lower bound", "ratio")
    for column in ("proven", "no sharing", "planning"):
        table.add_column(column)
    for row in read_figures("arena"):
        sizes = (row["arena_bytes"], row["bound_bytes"], row["unshared_bytes"])
        arena, bound, unshared = (f"{size / 2**20:.3f} MiB" for size in sizes)
        table.add_row(
            row["model"],
            row["policy"],
            str(row["lanes"]),
            str(row["buffers"]),
            arena,
            bound,
            f"{row['ratio']:.4f}",
            "yes" if row["proven"] else "no",
            unshared,
            f"{row['seconds']:.3f} s",
        )
    console().print(table)


if __name__ == "__main__":
    main()
