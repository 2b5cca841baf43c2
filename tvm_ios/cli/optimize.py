"""``tvm-ios optimize``: from a model to the fastest executable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvm_ios.cli.completion import complete_cost
from tvm_ios.cli.help_pages import HelpPage
from tvm_ios.cli.output import (
    Batch,
    Debug,
    Json,
    Model,
    RandomWeights,
    Shapes,
    input_shapes,
    progress_bars,
    reports_errors,
)
from tvm_ios.cli.search_options import (
    Arch,
    Cudnn,
    DeviceName,
    DialectName,
    DialectOption,
    Fallback,
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
    Verification,
    bytes_of,
    chosen_policies,
    search_options,
)
from tvm_ios.cli.tables.on_device import print_on_device
from tvm_ios.cli.tables.optimized import print_compiled, print_optimized
from tvm_ios.contest.outputs import Verify

if TYPE_CHECKING:
    from relay_passes.search_options import SearchOptions


PAGE = HelpPage(
    (
        "tvm-ios optimize squeezenet -o out/",
        "tvm-ios optimize model.onnx --lanes 4 --time-limit 60 -o model.tar",
        "tvm-ios optimize squeezenet --policy sequential --schedule schedule.json -o out/",
        "tvm-ios optimize mobilenet_v2 --batch 8 --policy graphturbo,holistic",
    ),
    "`tvm-ios run` runs the result, `tvm-ios explain` says what bounds it.",
)


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
    fallback: Annotated[
        Fallback,
        typer.Option(
            help="Keep TVM's own build, or ONNX Runtime with the model, where faster than ours."
        ),
    ] = Fallback.tvm,
    cost: Annotated[
        str | None,
        typer.Option(
            help="Run nothing: schedule by a log (.jsonl) or a device (h200, ...) and compile. "
            "With --device: what the search goes by. "
            "[without a GPU for --target cuda its description]",
            autocompletion=complete_cost,
        ),
    ] = None,
    dialect: DialectOption = DialectName.relax,
    target: Target = TargetKind.llvm,
    arch: Arch = None,
    precision: PrecisionOption = None,
    cudnn: Cudnn = None,
    device: DeviceName = None,
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
    verify: Verification = Verify.onnx,
    launches: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="With --device: write the launches of each policy's program, with their code.",
        ),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Find the fastest schedule of a model, check it, and save an executable.

    Every policy's schedule is searched with measured stages, built, compared with what the model
    is by ONNX, and timed beside TVM's own build. It is kept only if the 95 % interval of its time
    over that of one unit after another lies below one; else that is. With a memory budget, only
    what fits into it. Where results differ, the first wrong operator is named. The end of a model
    whose shapes depend on the data, such as NonMaxSuppression, runs after the program, on ONNX
    Runtime. Where TVM's own build, or with --fallback onnxruntime the model there, is faster than
    all of these, it is saved in their place. With --device, the device times the programs, and they
    are compared where it computes.
    """
    policies, shapes = chosen_policies(policy), input_shapes(shape)
    budget = bytes_of(memory_budget, "--memory-budget")
    options = search_options(
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
        device=device,
    )
    if launches is not None and device is None:
        raise typer.BadParameter("it is for a --device", param_hint="'--launches'")
    from tvm_ios.api import compile_unmeasured
    from tvm_ios.api import optimize as run
    from tvm_ios.models.source import ModelSource

    source = ModelSource(model, random_weights, shapes, batch, dialect.value)
    path = output or Path(f"{Path(model).stem}.ios")
    if device is not None:
        from tvm_ios.api.on_device import optimize_on_device

        with progress_bars() as update:
            on_device = optimize_on_device(
                source,
                path,
                options=options,
                cost=cost,
                policies=policies,
                schedule=schedule,
                memory_budget=budget,
                launches=launches,
                verify=verify,
                progress=update,
            )
        print_on_device(on_device, as_json)
        return
    if cost is None and target is TargetKind.cuda:
        cost = _without_gpu(options)
    if cost is not None:
        with progress_bars() as update:
            compiled = compile_unmeasured(
                source,
                path,
                cost,
                options=options,
                policies=policies,
                schedule=schedule,
                memory_budget=budget,
                progress=update,
            )
        print_compiled(compiled, as_json)
        return
    with progress_bars() as update:
        done = run(
            source,
            path,
            options=options,
            policies=policies,
            schedule=schedule,
            memory_budget=budget,
            fallback=fallback.runtimes,
            verify=verify,
            progress=update,
        )
    print_optimized(done, as_json)


def _without_gpu(options: SearchOptions) -> str | None:
    """The description to schedule by where no GPU of the target is; None where one is."""
    from runtime_ext.cuda.nvidia.driver import open_device
    from runtime_ext.native_errors import CudaError
    from runtime_ext.target_architecture import cuda_arch
    from tvm_ios.devices.device import described_gpu

    arch = cuda_arch(options.target)
    assert arch is not None
    try:
        open_device().require(arch)
        return None
    except CudaError:
        return described_gpu(arch)
