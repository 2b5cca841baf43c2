"""``tvm-ios optimize``: from a model to the fastest executable."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Debug, Json, Verbose, progress_bars, reports_errors
from tvm_ios.cli.options.combinations import (
    AlternativeShapes,
    Archs,
    Batches,
    LaneCounts,
    sources,
)
from tvm_ios.cli.options.completion import complete_cost
from tvm_ios.cli.options.described import without_gpu
from tvm_ios.cli.options.fleet import Devices, Key, Tracker, fleet_choice
from tvm_ios.cli.options.model import (
    Models,
    RandomSeed,
    RandomWeights,
    States,
    Together,
    models_together,
    states_of,
)
from tvm_ios.cli.options.search_options import (
    Chains,
    ChainsMode,
    Cudnn,
    DeviceName,
    DialectName,
    DialectOption,
    Fallback,
    GroupsAStage,
    MaxBlock,
    MaxMeasurements,
    Measure,
    MeasureMode,
    MemoryBudget,
    Objective,
    ObjectiveOption,
    OperatorsAGroup,
    Policies,
    PrecisionOption,
    Target,
    TargetKind,
    TimeLimit,
    TuningLog,
    Verification,
    Winograd,
    WinogradOption,
    chosen_policies,
    search_options,
)
from tvm_ios.cli.options.values import bytes_of, names_in, numbers_in, refuse
from tvm_ios.cli.tables.deployed import print_deployed
from tvm_ios.cli.tables.fleet_report import fleet_report, tell_fleet
from tvm_ios.cli.tables.on_device import print_on_device
from tvm_ios.cli.tables.optimized import print_compiled, print_optimized
from tvm_ios.contest.outputs import Verify
from tvm_ios.deployment.registry import is_deployment

PAGE = HelpPage(
    (
        "tvm-ios optimize squeezenet -o out/",
        "tvm-ios optimize model.onnx --lanes 4 --time-limit 60 -o model.tar",
        "tvm-ios optimize squeezenet --policy sequential --schedule schedule.json -o out/",
        "tvm-ios optimize mobilenet_v2 --batch 8 --policy graphturbo,holistic",
        "tvm-ios optimize squeezenet --batch 1,8 --arch x86-64-v3,x86-64-v4 --lanes 1,2 -o app/",
        "tvm-ios optimize squeezenet --from-logs results/ -o app/",
        "tvm-ios optimize squeezenet --objective throughput -o out/",
        "tvm-ios optimize squeezenet mobilenet_v2 --together -o out/",
        "tvm-ios optimize squeezenet --tracker 127.0.0.1:9190 --key epyc",
    ),
    "`tvm-ios run` runs the result, `tvm-ios explain` says what bounds it.",
)


@reports_errors
def optimize(
    model: Models,
    together: Together = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Folder (or .tar) of the executable, or folder of a deployment.  [MODEL.ios]",
        ),
    ] = None,
    policy: Policies = None,
    schedule: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Try this schedule too: of `tvm-ios schedule -o`, or of IOS's published "
            "implementation.",
        ),
    ] = None,
    objective: ObjectiveOption = Objective.latency,
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
    from_logs: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Measure nothing: a deployment of what logs, schedules and bundles' results in "
            "this folder say.",
        ),
    ] = None,
    dialect: DialectOption = DialectName.relax,
    target: Target = TargetKind.llvm,
    arch: Archs = None,
    precision: PrecisionOption = None,
    cudnn: Cudnn = None,
    winograd: WinogradOption = Winograd.auto,
    device: DeviceName = None,
    tracker: Tracker = None,
    key: Key = None,
    devices: Devices = None,
    shape: AlternativeShapes = None,
    batch: Batches = None,
    lanes: LaneCounts = None,
    random_weights: RandomWeights = None,
    random_seed: RandomSeed = None,
    state: States = None,
    chains: Chains = ChainsMode.auto,
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
    verbose: Verbose = 0,
    debug: Debug = False,
) -> None:
    """Find the fastest schedule of a model, check it, and save an executable.

    Every policy's schedule is searched with measured stages, built, compared with what the model is
    by ONNX, and timed beside TVM's own build. It is kept only if the 95 % interval of its time over
    that of one unit after another lies below one; else that is. What cannot gain a percent is not
    searched or not built, unless --measure full asks for it; each policy has a line that says what
    it gained, or why not. With a memory budget, only what fits into it. Where results differ, the
    first wrong operator is named. The end of a model whose shapes depend on the data, such as
    NonMaxSuppression, runs after the program, on ONNX Runtime. Where TVM's own build, or with
    --fallback onnxruntime the model there, is faster than all of these, it is saved in their place.
    With --device, the device times the programs, and they are compared where it computes. With
    --tracker, stages and programs run on the servers of a key. Of several batches, shapes,
    architectures or numbers of lanes it makes a deployment: one folder with a program for each
    combination, of which the one that fits is run; what cannot run here is scheduled by a
    description or a log, and not measured. With --objective throughput it keeps what serves the
    most requests a second: one on all lanes, or one a lane at once. With --together, several models
    become one program, whose inputs and outputs have the model's name before them where two models
    have the same; their units run side by side only where that is faster than one after another.
    """
    policies = chosen_policies(policy)
    budget = bytes_of(memory_budget, "--memory-budget")
    named = models_together(model, together, random_seed=random_seed)
    models = sources(named, random_weights, shape, numbers_in(batch, "--batch"), dialect.value)
    lane_counts = numbers_in(lanes, "--lanes")
    states = states_of(state)
    archs = names_in(arch or "")
    path = output or Path(f"{named.name}.ios")
    fleet = fleet_choice(tracker, key, devices)
    make_options = partial(
        search_options,
        measure=measure,
        max_measurements=max_measurements,
        time_limit=time_limit,
        r=r,
        s=s,
        max_block=max_block,
        log=log,
        target=target,
        precision=precision,
        dialect=dialect,
        cudnn=cudnn,
        chains=chains,
        winograd=winograd,
        fleet=fleet,
    )
    by_onnxruntime = fallback is Fallback.onnxruntime
    if cost is not None:
        refuse(f"{cost} asks no machine: leave out one of them", {"--tracker": fleet})
    if fleet is not None:
        refuse("a fleet runs our programs alone", {"--fallback": by_onnxruntime})
    if device is None:
        refuse("it is for a --device", {"--launches": launches})
    asked: dict[str, Any] = dict(policies=policies, schedule=schedule, memory_budget=budget)
    if objective is Objective.throughput:
        from tvm_ios.cli.throughput import optimize_for_throughput

        unfit: dict[str, object] = {"--device": device, "--tracker": fleet, "--cost": cost}
        unfit |= {"--from-logs": from_logs, "--target": target is TargetKind.cuda}
        unfit |= {"--fallback": by_onnxruntime, "--state": states}
        how = {**asked, "verify": verify}
        return optimize_for_throughput(
            models, archs, lane_counts, path, make_options, unfit, how, as_json
        )
    several = max(len(models), len(archs), len(lane_counts)) > 1
    if several or from_logs is not None or is_deployment(path):
        refused = {
            "--device": device is not None,
            "--tracker": fleet is not None,
            "--fallback": by_onnxruntime,
            "--cost": cost is not None and from_logs is not None,
            "--schedule": schedule is not None and from_logs is not None,
            "--state": states,
        }
        refuse("a deployment has no such choice", refused)
        from tvm_ios.cli.deployments import make_deployment

        with progress_bars() as update:
            made = make_deployment(
                models,
                archs,
                lane_counts,
                path,
                make_options,
                from_logs,
                cost=cost,
                **asked,
                verify=verify,
                progress=update,
            )
        print_deployed(made, as_json)
        if made.left_out:
            raise typer.Exit(1)
        return
    (source,) = models
    options = make_options(
        next(iter(lane_counts), None), arch=next(iter(archs), None), device=device
    )
    from tvm_ios.api import compile_unmeasured
    from tvm_ios.api import optimize as run

    if device is not None:
        refuse("give it to `tvm-ios run`", {"--state": states})
        from tvm_ios.api.on_device import optimize_on_device

        with progress_bars() as update:
            on_device = optimize_on_device(
                source,
                path,
                options=options,
                cost=cost,
                **asked,
                launches=launches,
                verify=verify,
                progress=update,
            )
        print_on_device(on_device, as_json)
        return
    if cost is None and target is TargetKind.cuda:
        cost = without_gpu(options)
    if cost is not None:
        with progress_bars() as update:
            compiled = compile_unmeasured(
                source,
                path,
                cost,
                options=options,
                **asked,
                verify=verify,
                states=states,
                progress=update,
            )
        print_compiled(compiled, as_json)
        return
    with progress_bars() as update:
        done = run(
            source,
            path,
            options=options,
            **asked,
            fallback=fallback.runtimes,
            states=states,
            beside_tvm=fallback is not Fallback.none,
            verify=verify,
            progress=update,
        )
    tell_fleet(options.fleet)
    print_optimized(done, as_json, fleet_report(options.fleet))
