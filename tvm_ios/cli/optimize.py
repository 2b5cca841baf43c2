"""``tvm-ios optimize``: from a model to the fastest executable."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tvm_ios.cli.output import (
    Debug,
    Json,
    Model,
    RandomWeights,
    Shapes,
    console,
    input_shapes,
    print_json,
    progress_bars,
    reports_errors,
)
from tvm_ios.cli.search_options import (
    GroupsAStage,
    Lanes,
    MaxBlock,
    MaxMeasurements,
    Measure,
    MeasureMode,
    MemoryBudget,
    OperatorsAGroup,
    Policies,
    TimeLimit,
    TuningLog,
    bytes_of,
    measuring_options,
    policy_names,
)

if TYPE_CHECKING:
    from tvm_ios.api import Optimized


@reports_errors
def optimize(
    model: Model,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder (or .tar) of the executable.  [MODEL.ios]"),
    ] = None,
    policy: Policies = None,
    schedule: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Try this schedule too; `tvm-ios schedule -o` writes one."
        ),
    ] = None,
    memory_budget: MemoryBudget = None,
    shape: Shapes = None,
    lanes: Lanes = None,
    random_weights: RandomWeights = None,
    log: TuningLog = None,
    measure: Measure = MeasureMode.lazy,
    max_measurements: MaxMeasurements = 400,
    time_limit: TimeLimit = None,
    r: OperatorsAGroup = 3,
    s: GroupsAStage = 8,
    max_block: MaxBlock = 40,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Find the fastest schedule of a model, check it, and save an executable.

    Every policy's schedule is searched with measured stages, built, and compared with TVM's own
    build: first what it computes, then how long it takes. Only what is faster than one unit after
    another beyond doubt is kept, else that. With a memory budget, only what fits into it.
    """
    policies, fixed = policy_names(policy), input_shapes(shape)
    budget = bytes_of(memory_budget, "--memory-budget")
    options = measuring_options(lanes, measure, max_measurements, time_limit, r, s, max_block, log)
    from tvm_ios.api import optimize as run

    target = output or Path(f"{Path(model).stem}.ios")
    with progress_bars() as update:
        done = run(
            model,
            target,
            options=options,
            random_weights=random_weights,
            shapes=fixed,
            policies=policies,
            schedule=schedule,
            memory_budget=budget,
            progress=update,
        )
    if as_json:
        print_json(_json(done))
    else:
        _print(done)


def _json(done: Optimized) -> dict[str, Any]:
    return {
        "model": done.model,
        "policies": [
            {
                "policy": row.policy,
                "latency_ms": row.latency * 1e3,
                "ratio": row.ratio,
                "stages": row.stages,
                "max_abs_error": row.max_abs_error,
                "max_rel_error": row.max_rel_error,
            }
            for row in done.policies
        ],
        "kept": done.kept,
        "confirmed": {
            name: {
                "ratio": ratio.median,
                "low": ratio.low,
                "high": ratio.high,
                "pairs": ratio.pairs,
            }
            for name, ratio in done.confirmed.items()
        },
        "search": {
            "operators": done.operators,
            "units": done.units,
            "blocks": done.blocks,
            "blocks_searched": done.blocks_searched,
            "states": done.states,
            "transitions": done.transitions,
            "candidates": done.candidates,
            "stages_measured": done.stages_measured,
            "complete": done.complete,
            "tuned": None if done.tuned is None else asdict(done.tuned),
        },
        "memory": {
            "arena_bytes": done.memory.plan.nbytes,
            "bound_bytes": done.memory.bound,
            "unshared_bytes": done.memory.unshared,
            "proven": done.memory.proven,
        },
        "seconds": done.seconds,
        "executable": str(done.executable),
    }


def _print(done: Optimized) -> None:
    out = console()
    out.print(
        f"[bold]{done.model}[/bold]: {done.operators} operators in {done.units} units, "
        f"{done.blocks} blocks ({done.blocks_searched} different)"
    )
    spent = "" if done.complete else " (the budget was spent before the proof)"
    out.print(
        f"search {done.seconds['search']:.1f} s: {done.stages_measured} stages measured now, "
        f"{done.candidates} would be in a full search{spent}; "
        f"build {done.seconds['build']:.1f} s, "
        f"TVM's own {done.seconds['tvm']:.1f} s"
    )
    if done.tuned is not None:
        found, used, missing = done.tuned.found, done.tuned.used, done.tuned.missing
        out.print(f"tuning log: {found} kernels found, {used} used, {missing} not in it")
    table = Table("policy", "stages", "latency", "to sequential", "largest error")
    for row in done.policies:
        style = "bold green" if row.policy == done.kept else ""
        table.add_row(
            row.policy,
            "" if row.stages is None else str(row.stages),
            f"{row.latency * 1e3:.3f} ms",
            f"{row.ratio:.3f}",
            "reference" if row.policy == "tvm" else f"{row.max_rel_error:.1e}",
            style=style,
        )
    out.print(table)
    sequential, tvm = done.confirmed["sequential"], done.confirmed["tvm"]
    out.print(
        f"kept [bold green]{done.kept}[/bold green]: in {sequential.pairs} pairs of runs in "
        f"fresh processes {sequential.median:.3f} of sequential "
        f"({sequential.low:.3f} to {sequential.high:.3f}), {tvm.median:.3f} of TVM's own "
        f"({tvm.low:.3f} to {tvm.high:.3f})"
    )
    memory = done.memory
    sizes = (memory.plan.nbytes, memory.unshared, memory.bound)
    arena, unshared, bound = (f"{size / 2**20:.2f} MiB" for size in sizes)
    out.print(
        f"memory: tensors between units share {arena}, apart they take {unshared}; lower bound "
        f"{bound}, {'proven optimal' if memory.proven else f'ratio {memory.ratio:.3f}'}"
    )
    if tvm.high >= 1:
        out.print(
            f"[yellow]TVM's own build is {'faster' if tvm.low > 1 else 'as fast'} on this model: "
            "use it, or tune the kernels[/yellow]"
        )
    out.print(f"executable: {done.executable}  (tvm-ios run {done.executable})")
