"""``tvm-ios optimize``: from a model to the fastest executable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Reporting, print_json, progress_bars, reports_errors
from tvm_ios.cli.optimize_range import optimize_range_command, shapes_of_range
from tvm_ios.cli.options.combinations import (
    AlternativeShapes,
    Archs,
    Batches,
    LaneCounts,
    sources,
)
from tvm_ios.cli.options.completion import complete_cost
from tvm_ios.cli.options.fleet import FleetOptions
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
    CompileOptions,
    Cudnn,
    DeviceName,
    DumpIr,
    Fallback,
    MeasuringOptions,
    MemoryBudget,
    Objective,
    ObjectiveOption,
    Policies,
    TargetKind,
    TimeLimit,
    TuningLog,
    Verification,
    chosen_policies,
    search_options,
)
from tvm_ios.cli.options.values import bytes_of, names_in, numbers_in, refuse, wrong_use
from tvm_ios.cli.tables.deployed import print_deployed
from tvm_ios.cli.tables.fleet_report import fleet_report, tell_fleet
from tvm_ios.cli.tables.result import print_result
from tvm_ios.contest.outputs import Verify
from tvm_ios.deployment.registry import is_deployment

if TYPE_CHECKING:
    from tvm_ios.api.options import Options
    from tvm_ios.models.source import ModelSource

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
        "tvm-ios optimize encoder.onnx --shape input_ids:1..32,1..512 -o out/",
        "tvm-ios optimize encoder.onnx --shape input_ids:1..32,1..512 --lanes 1,2 -o app/",
    ),
    "`tvm-ios run` runs the result, `tvm-ios explain` says what bounds it.",
)


#: The command-line options of those fields of ``Options`` that may contradict others.
_OPTION_OF = {"states": "--state", "launches": "--launches", "fleet": "--tracker"}

Output = Annotated[
    Path | None,
    panels.output(
        "-o",
        "--output",
        help="Folder (or .tar) of the executable, or folder of a deployment.  [MODEL.ios]",
    ),
]
GivenSchedule = Annotated[
    Path | None,
    panels.search(
        metavar="FILE",
        help="Try this schedule too: of `tvm-ios schedule -o`, or of IOS's published "
        "implementation.",
    ),
]
FallbackOption = Annotated[
    Fallback,
    panels.search(
        help="Keep TVM's own build, or ONNX Runtime with the model, where faster than ours."
    ),
]
Cost = Annotated[
    str | None,
    panels.search(
        help="Run nothing: schedule by a log (.jsonl) or a device (h200, ...) and compile. "
        "With --device: what the search goes by. "
        "[without a GPU for --target cuda its description]",
        autocompletion=complete_cost,
    ),
]
FromLogs = Annotated[
    Path | None,
    panels.search(
        metavar="FOLDER",
        help="Measure nothing: a deployment of what logs, schedules and bundles' results in "
        "this folder say.",
    ),
]
Launches = Annotated[
    Path | None,
    panels.output(
        metavar="FOLDER",
        help="With --device: write the launches of each policy's program, with their code.",
    ),
]


@reports_errors
def optimize(
    model: Models,
    reporting: Reporting,
    measuring: MeasuringOptions,
    compiled: CompileOptions,
    servers: FleetOptions,
    together: Together = False,
    output: Output = None,
    policy: Policies = None,
    schedule: GivenSchedule = None,
    objective: ObjectiveOption = Objective.latency,
    memory_budget: MemoryBudget = None,
    fallback: FallbackOption = Fallback.tvm,
    cost: Cost = None,
    from_logs: FromLogs = None,
    arch: Archs = None,
    cudnn: Cudnn = None,
    device: DeviceName = None,
    shape: AlternativeShapes = None,
    batch: Batches = None,
    lanes: LaneCounts = None,
    random_weights: RandomWeights = None,
    random_seed: RandomSeed = None,
    state: States = None,
    log: TuningLog = None,
    time_limit: TimeLimit = None,
    verify: Verification = Verify.onnx,
    launches: Launches = None,
    dump_ir: DumpIr = None,
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
    With a range in --shape, such as input_ids:1..32,1..512, one program serves all these shapes:
    schedules are searched at points of the range, and kept around those where they are faster; a
    deployment takes it for shapes that have no program of their own. Without --shape it is the
    program of a model of texts whose inputs have open dimensions.
    """
    others = {
        **{"--together": together, "--schedule": schedule},
        "--objective": objective is Objective.throughput,
        **{"--cost": cost, "--from-logs": from_logs},
        "--fallback": fallback is Fallback.onnxruntime,
        **{"--cudnn": cudnn is not None, "--device": device, "--batch": batch},
        "--random-weights": random_weights is not None,
        **{"--state": state, "--log": log},
        **{"--launches": launches, "--dump-ir": dump_ir, "--tracker": servers.choice()},
    }
    if (of_range := shapes_of_range(model, shape or (), others, compiled, measuring)) is not None:
        return optimize_range_command(
            model[0],
            of_range,
            output,
            winograd=measuring.winograd,
            policy=policy,
            lanes=lanes,
            arch=arch,
            time_limit=time_limit,
            verify=verify,
            memory_budget=memory_budget,
            reporting=reporting,
        )
    named = models_together(model, together, random_seed=random_seed)
    dialect, batches = compiled.dialect.value, numbers_in(batch, "--batch")
    models = sources(named, random_weights, shape, batches, dialect)
    lane_counts, archs = numbers_in(lanes, "--lanes"), names_in(arch or "")
    path, fleet = output or Path(f"{named.name}.ios"), servers.choice()
    several = max(len(models), len(archs), len(lane_counts)) > 1
    unfit: dict[str, object] = {"--device": device, "--tracker": fleet, "--state": state}
    unfit["--fallback"] = fallback is Fallback.onnxruntime
    serves = objective is Objective.throughput
    deploys = not serves and (several or from_logs is not None or is_deployment(path))
    if serves or deploys:
        refuse("it is of one program, and several are made", {"--dump-ir": dump_ir})
    if fleet is not None:
        # Refuse these before the fleet is asked for machines.
        refuse(f"{cost} asks no machine: leave out one of them", {"--tracker": cost})
        refuse("a fleet runs our programs alone", {"--fallback": unfit["--fallback"]})
    if serves:
        unfit |= {"--cost": cost, "--from-logs": from_logs, "--batch": len(models) > 1}
        unfit |= {"--arch": len(archs) > 1, "--lanes": len(lane_counts) > 1}
        unfit |= {"--target": compiled.target is TargetKind.cuda, "--output": is_deployment(path)}
        refuse("throughput is measured here, of one program of ours on CPUs", unfit)
    if deploys:
        by_logs = from_logs is not None
        unfit |= {"--cost": cost and by_logs, "--schedule": schedule and by_logs}
        refuse("a deployment has no such choice", unfit)
    search = search_options(
        lane_counts[0] if len(lane_counts) == 1 else None,
        measuring,
        compiled=compiled,
        arch=archs[0] if len(archs) == 1 else None,
        log=log,
        time_limit=time_limit,
        cudnn=cudnn,
        runs_here=not deploys,
        device=device,
        fleet=fleet,
        dump_ir=dump_ir,
    )
    if cost is None and device is None and not deploys and compiled.target is TargetKind.cuda:
        from tvm_ios.api.deployments.deployed import description_of, runs_here

        cost = None if runs_here(search) else description_of(search)
    options = _checked(
        search=search,
        policies=chosen_policies(policy),
        schedule=schedule,
        cost=cost,
        memory_budget=bytes_of(memory_budget, "--memory-budget"),
        fallback=fallback.runtimes,
        beside_tvm=fallback is not Fallback.none,
        verify=verify,
        states=states_of(state),
        launches=launches,
    )
    if deploys:
        return _deploy(models, archs, lane_counts, path, options, from_logs, reporting.as_json)
    from tvm_ios.api import optimize as optimize_latency
    from tvm_ios.api import optimize_throughput

    with progress_bars() as update:
        run = optimize_throughput if serves else optimize_latency
        result = run(models[0], path, options, update)
    tell_fleet(search.fleet)
    if reporting.as_json:
        return print_json({**result.to_json(), **fleet_report(search.fleet)})
    return print_result(result)


def _checked(**options: Any) -> Options:
    """Return the options; raise a wrong use of the command if they contradict each other."""
    from tvm_ios.api.options import Options, OptionsError

    try:
        return Options(**options)
    except OptionsError as error:
        raise wrong_use(_OPTION_OF[error.option], error) from error


def _deploy(
    models: list[ModelSource],
    archs: list[str],
    lanes: list[int],
    folder: Path,
    options: Options,
    logs: Path | None,
    as_json: bool,
) -> None:
    """Make a deployment, or add to one, and print its entries."""
    from tvm_ios.api.deployments.combinations import combinations, combinations_of
    from tvm_ios.api.deployments.recipes import read_recipes

    others: list[str] = []
    if logs is None:
        wanted = combinations(models, archs or [None], lanes or [options.search.lanes])
    else:
        recipes, others = read_recipes(logs)
        wanted = [
            combination
            for combination in combinations_of(recipes, models)
            if combination.arch in (archs or [combination.arch])
            and combination.lanes in (lanes or [combination.lanes])
        ]
    # This import loads TVM, which counts its threads as the options say.
    from tvm_ios.api.deployments.deployed import optimize_deployment

    with progress_bars() as update:
        made = optimize_deployment(wanted, folder, options, update)
    made = replace(made, left_out=(*others, *made.left_out))
    print_deployed(made, as_json)
    if made.left_out:
        raise typer.Exit(1)
