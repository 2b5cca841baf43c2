"""``tvm-ios optimize``: from a model to the fastest executable."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.completion import complete_cost
from tvm_ios.cli.output import (
    Batch,
    Debug,
    Json,
    Model,
    RandomWeights,
    Shapes,
    console,
    input_shapes,
    left_out_text,
    print_json,
    progress_bars,
    reports_errors,
)
from tvm_ios.cli.search_options import (
    Arch,
    Cudnn,
    Dialect,
    DialectOption,
    GroupsAStage,
    Lanes,
    MaxBlock,
    MaxMeasurements,
    Measure,
    MeasureMode,
    MemoryBudget,
    OperatorsAGroup,
    Policies,
    PrecisionOption,
    Target,
    TargetKind,
    TimeLimit,
    TuningLog,
    bytes_of,
    measuring_options,
    policy_names,
)

if TYPE_CHECKING:
    from relay_passes.measuring_options import MeasuringOptions
    from tvm_ios.optimized import Compiled, Optimized
    from tvm_ios.paired import PairedRatio


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
    cost: Annotated[
        str | None,
        typer.Option(
            help="Run nothing: schedule by a log (.jsonl) or a device (h200, ...) and compile. "
            "[without a GPU for --target cuda its description]",
            autocompletion=complete_cost,
        ),
    ] = None,
    dialect: DialectOption = Dialect.relax,
    target: Target = TargetKind.llvm,
    arch: Arch = None,
    precision: PrecisionOption = None,
    cudnn: Cudnn = None,
    shape: Shapes = None,
    batch: Batch = None,
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
    options = measuring_options(
        lanes,
        measure,
        max_measurements,
        time_limit,
        r,
        s,
        max_block,
        log,
        target=target,
        arch=arch,
        precision=precision,
        dialect=dialect,
        cudnn=cudnn,
    )
    from tvm_ios.api import compile_unmeasured
    from tvm_ios.api import optimize as run

    path = output or Path(f"{Path(model).stem}.ios")
    if cost is None and target is TargetKind.cuda:
        cost = _without_gpu(options)
    if cost is not None:
        with progress_bars() as update:
            compiled = compile_unmeasured(
                model,
                path,
                cost,
                options=options,
                random_weights=random_weights,
                shapes=fixed,
                batch=batch,
                policies=policies,
                schedule=schedule,
                dialect=dialect.value,
                progress=update,
            )
        _show_compiled(compiled, as_json)
        return
    with progress_bars() as update:
        done = run(
            model,
            path,
            options=options,
            random_weights=random_weights,
            shapes=fixed,
            batch=batch,
            policies=policies,
            schedule=schedule,
            memory_budget=budget,
            dialect=dialect.value,
            progress=update,
        )
    if as_json:
        print_json(_json(done))
    else:
        _print(done)


def _without_gpu(options: MeasuringOptions) -> str | None:
    """The description to schedule by where no GPU of the target is; None where one is."""
    from runtime_ext.backend import cuda_arch
    from runtime_ext.cuda.driver import CudaError, open_device
    from tvm_ios.search.described import described_gpu

    arch = cuda_arch(options.target)
    assert arch is not None
    try:
        open_device().require(arch)
        return None
    except CudaError:
        return described_gpu(arch)


def _show_compiled(done: Compiled, as_json: bool) -> None:
    rows = [
        {"policy": policy, "expected_ms": seconds * 1e3, "stages": done.stages[policy]}
        for policy, seconds in done.expected.items()
    ]
    if as_json:
        found = {"model": done.model, "policies": rows, "kept": done.kept, "cost": done.cost}
        about = {"target": done.target, "not_measured": done.not_measured, "notes": done.notes}
        print_json({**found, **about, "executable": str(done.executable)})
        return
    out = console()
    table = Table("policy", "stages", "expected", title=f"{escape(done.model)} for {done.target}")
    for row in rows:
        style = "bold green" if row["policy"] == done.kept else ""
        table.add_row(
            str(row["policy"]), str(row["stages"]), f"{row['expected_ms']:.3f} ms", style=style
        )
    out.print(table)
    for note in (*done.notes, done.not_measured):
        out.print(f"[yellow]{escape(note)}[/yellow]")
    out.print(escape(f"executable: {done.executable}"))


def _beside_tvm(ratio: PairedRatio | None) -> str:
    if ratio is None:
        return ""
    return f", {ratio.median:.3f} of TVM's own ({ratio.low:.3f} to {ratio.high:.3f})"


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
            "left_out": done.left_out,
            "tuned": None if done.tuned is None else asdict(done.tuned),
        },
        "memory": {
            "arena_bytes": done.memory.plan.nbytes,
            "bound_bytes": done.memory.bound,
            "unshared_bytes": done.memory.unshared,
            "proven": done.memory.proven,
        },
        "notes": done.notes,
        "seconds": done.seconds,
        "executable": str(done.executable),
    }


def _print(done: Optimized) -> None:
    out = console()
    out.print(
        f"[bold]{escape(done.model)}[/bold]: {done.operators} operators in {done.units} units, "
        f"{done.blocks} blocks ({done.blocks_searched} different)"
    )
    spent = "" if done.complete else " (the budget was spent before the proof)"
    out.print(
        f"search {done.seconds['search']:.1f} s: {done.stages_measured} stages measured now, "
        f"{done.candidates} would be in a full search{spent}; "
        f"build {done.seconds['build']:.1f} s, "
        f"TVM's own {done.seconds['tvm']:.1f} s"
    )
    if done.left_out:
        out.print(left_out_text(done.left_out))
    for note in done.notes:
        out.print(f"[yellow]{escape(note)}[/yellow]")
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
    sequential, tvm = done.confirmed["sequential"], done.confirmed.get("tvm")
    compared = (
        "nothing was faster beyond doubt"
        if done.kept == "sequential"
        else f"in {sequential.pairs} pairs of runs in fresh processes {sequential.median:.3f} of "
        f"sequential ({sequential.low:.3f} to {sequential.high:.3f})"
    )
    out.print(f"kept [bold green]{done.kept}[/bold green]: {compared}" + _beside_tvm(tvm))
    memory = done.memory
    sizes = (memory.plan.nbytes, memory.unshared, memory.bound)
    arena, unshared, bound = (f"{size / 2**20:.2f} MiB" for size in sizes)
    out.print(
        f"memory: tensors between units share {arena}, apart they take {unshared}; lower bound "
        f"{bound}, {'proven optimal' if memory.proven else f'ratio {memory.ratio:.3f}'}"
    )
    if tvm is not None and tvm.high >= 1:
        out.print(
            f"[yellow]TVM's own build is {'faster' if tvm.low > 1 else 'as fast'} on this model: "
            "use it, or tune the kernels[/yellow]"
        )
    out.print(escape(f"executable: {done.executable}  (tvm-ios run {done.executable})"))
