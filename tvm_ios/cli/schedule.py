"""``tvm-ios schedule``: search only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tvm_ios.cli.accelerators import schedule_accelerator, schedule_streams
from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Reporting, progress_bars, reports_errors, tell_tail
from tvm_ios.cli.options.completion import complete_cost, complete_engine, complete_policy
from tvm_ios.cli.options.fleet import FleetOptions
from tvm_ios.cli.options.model import (
    Batch,
    Models,
    RandomWeights,
    Shapes,
    Together,
    input_shapes,
    models_together,
)
from tvm_ios.cli.options.search_options import (
    STREAMS,
    Arch,
    BlockOptions,
    CompileOptions,
    DeviceName,
    DumpIr,
    Lanes,
    MeasuringOptions,
    MemoryBudget,
    TargetKind,
    search_options,
)
from tvm_ios.cli.options.values import bytes_of, refuse, require_known
from tvm_ios.cli.tables.fleet_report import fleet_report, tell_fleet
from tvm_ios.cli.tables.front import print_front
from tvm_ios.cli.tables.given import given_beside
from tvm_ios.cli.tables.scheduled import print_schedule
from tvm_ios.costs.named import MEASURED
from tvm_ios.files.atomic import require_writable
from tvm_ios.graphturbo.cluster.placement import Placement
from tvm_ios.models.source import Form
from tvm_ios.policies.registry import policy_names

if TYPE_CHECKING:
    from relay_passes.measured_module import MeasuredModule
    from relay_passes.prepared import Prepared
    from relay_passes.search_options import SearchOptions
    from tvm_ios.models.source import ModelSource
    from tvm_ios.onnx.tail import Tail
    from tvm_ios.policies.policy import Found, Problem
    from tvm_ios.progress import Progress
    from tvm_ios.search import Search


PAGE = HelpPage(
    (
        "tvm-ios schedule inception_v3 --cost v100 --plot schedule.svg",
        "tvm-ios schedule inception_v3 --cost v100 --engine ios",
        "tvm-ios schedule squeezenet --cost measured -o schedule.json",
        "tvm-ios schedule inception_v3 --schedule published.json",
        "tvm-ios schedule squeezenet --pareto",
        "tvm-ios schedule squeezenet --batch 8 --policy graphturbo --cost stcp920 -o plan.json",
        "tvm-ios schedule inception_v3 resnet50 --together",
        "tvm-ios schedule squeezenet --tracker 127.0.0.1:9190 --key epyc",
    ),
    "`tvm-ios optimize` searches, builds and measures in one go.",
)


PolicyName = Annotated[
    str | None,
    panels.search(
        help=f"{', '.join(policy_names())}.  [ios-both; with --together together]",
        autocompletion=complete_policy,
    ),
]
Cost = Annotated[
    str | None,
    panels.search(
        help="measured, a log (.jsonl; with --arch of any machine), or a device: v100, cpu; "
        "for graphturbo an accelerator: stcp920, goya, ipu, a100, or its .json file. "
        "[v100; with --device or --tracker measured]",
        autocompletion=complete_cost,
    ),
]
EngineName = Annotated[
    str | None,
    panels.search(
        "--engine",
        help="Of a described device: what runs programs there. graph: this project's captured "
        "graph; ios: the engine of IOS's authors; or a .json file.  [that of our programs]",
        autocompletion=complete_engine,
    ),
]
Output = Annotated[Path | None, panels.output("-o", "--output", help="Write the schedule as JSON.")]
Plot = Annotated[
    Path | None, panels.output(help="Draw units on their lanes over time into this .svg or .png.")
]
SearchTime = Annotated[float | None, panels.limits(help="Seconds of a policy's search, at most.")]
GivenSchedule = Annotated[
    Path | None,
    panels.search(
        "--schedule",
        metavar="FILE",
        help="Say what this schedule costs, too: of -o, or of IOS's published implementation.",
    ),
]


@reports_errors
def schedule(
    model: Models,
    reporting: Reporting,
    measuring: MeasuringOptions,
    compiled: CompileOptions,
    servers: FleetOptions,
    policy: PolicyName = None,
    together: Together = False,
    cost: Cost = None,
    engine: EngineName = None,
    output: Output = None,
    plot: Plot = None,
    given_schedule: GivenSchedule = None,
    dump_ir: DumpIr = None,
    placement: Annotated[
        Placement | None,
        panels.search(
            help="On an accelerator: fastest (by simulation), or published, as many layers as fit "
            "exchanging tiles in local buffers.  [fastest]"
        ),
    ] = None,
    memory_budget: MemoryBudget = None,
    pareto: Annotated[
        bool, panels.search("--pareto", help="Show all trades of latency for memory.")
    ] = False,
    shape: Shapes = None,
    batch: Batch = None,
    arch: Arch = None,
    device: DeviceName = None,
    lanes: Lanes = None,
    random_weights: RandomWeights = None,
    time_limit: SearchTime = None,
    reuse: Annotated[bool, panels.search(help="Search equal blocks and branches once.")] = True,
) -> None:
    """Find a schedule, without building anything (except for --cost measured).

    For a described device the search needs neither TVM nor a compiler; measured, the stages that
    may matter are compiled and timed on this machine. What is found can be drawn and saved.
    Policies of IOS keep to a memory budget, or show with --pareto what memory costs in time; memory
    runs units in instances where no order fits. For an accelerator graphturbo plans instances,
    cores, buffers, tiles and moves, and simulates them; with --target cuda it puts instances on
    streams. With --together, several models are scheduled as one program.
    """
    from tvm_ios.api.accelerator import names_accelerator
    from tvm_ios.plot import plot_schedule, save_picture

    policy = policy or ("together" if together else "ios-both")
    budget = bytes_of(memory_budget, "--memory-budget")
    if budget is not None or pareto:
        _require_keeps_budget(policy)
    if pareto:
        of_one = (budget, output, plot)
        sentence = "it shows many schedules: choose one with --memory-budget, which -o and --plot"
        refuse(f"{sentence} then write", {"--pareto": of_one != (None, None, None)})
        refuse("it stands beside one that is found", {"--schedule": given_schedule})
        refuse("it shows many schedules", {"--dump-ir": dump_ir})
    _require_places(output, plot, dump_ir)
    fleet, precision = servers.choice(), compiled.precision
    cost = cost or ("v100" if device is None and fleet is None else MEASURED)
    log = Path(cost) if Path(cost).suffix == ".jsonl" else None
    source = models_together(
        model,
        together,
        random_weights=random_weights,
        shapes=input_shapes(shape),
        batch=batch,
        dialect=compiled.dialect.value,
        # Devices with descriptions are GPUs.
        cells=cost != MEASURED and log is None,
    )
    if log is not None:
        refuse("it needs --cost measured, which reads its log, or a device", {"--pareto": pareto})
    elif cost != MEASURED:
        sentence = f"{cost} is a description, and asks no device: leave out one of them"
        refuse(sentence, {"--device": device is not None})
    if cost != MEASURED:
        refuse(f"{cost} asks no machine: leave out one of them", {"--tracker": fleet})
    on_accelerator = policy == "graphturbo" and names_accelerator(cost)
    if cost == MEASURED or log is not None or on_accelerator:
        refuse("it is of a described device: give --cost v100 or another", {"--engine": engine})
    if on_accelerator:
        unfit = {"--plot": plot, "--schedule": given_schedule, "--dump-ir": dump_ir}
        refuse("an accelerator has none", unfit)
        if compiled.target is TargetKind.cuda:
            refuse("instances on streams have one placement", {"--placement": placement})
            return schedule_streams(source, cost, lanes or STREAMS, output, reporting.as_json)
        placement = placement or Placement.FASTEST
        return schedule_accelerator(source, cost, placement, precision, output, reporting.as_json)
    refuse("--policy graphturbo places tensors of accelerators alone", {"--placement": placement})
    if cost != MEASURED:
        only = "it is of what is measured (--cost measured), or of accelerators, which --policy"
        refuse(f"{only} graphturbo plans for", {"--precision": precision})
    module: MeasuredModule[Any] | None = None
    with progress_bars() as update:
        if cost == MEASURED or log is not None:
            options = search_options(
                lanes,
                measuring,
                compiled=compiled,
                arch=arch,
                time_limit=time_limit,
                # A log may be another machine's: its lanes are not compared with the CPUs here.
                runs_here=log is None,
                device=device,
                fleet=fleet,
                dump_ir=dump_ir,
            )
            module, end = _measured_module(source, options, update)
            prepared = module.prepared
            searching = module.search if log is None else module.recorded(log)
        else:
            searching, prepared, end = _described(
                source, (cost, engine), measuring, reuse, update, dump_ir
            )
        graph = searching.problem.units
        points = searching.front(policy) if pareto else ()
        result = None if pareto else searching.find(policy, budget, priced=True)
        asked = None if module is None else module.options.precision
        beside = given_schedule and given_beside(given_schedule, searching, asked)
        if module is not None and log is None:
            module.end_run()
    tail = tell_tail(end)
    if module is not None:
        tell_fleet(module.options.fleet)
    if result is None:
        return print_front(graph, points, policy, cost, tail, reporting.as_json)
    result.schedule.validate(graph)
    if output is not None:
        result.schedule.save(output, graph)
    if dump_ir is not None:
        assert prepared is not None, "what is dumped was read by TVM"
        from relay_passes.pipeline import apply_schedule

        apply_schedule(prepared, result.schedule, dump_ir)
    if plot is not None:
        save_picture(plot_schedule(graph, result.schedule, model=searching.costs.stages), plot)
    search = _statistics(result, module, searching.costs.measuring is not None)
    print_schedule(
        searching.problem, result.schedule, cost, search, tail, reporting.as_json, beside
    )


def _require_keeps_budget(policy: str) -> None:
    """Refuse a policy that cannot keep to a memory budget."""
    from tvm_ios.policies.registry import OURS, policy_named

    if not policy_named(policy).keeps_memory_budget:
        keeping = [name for name in OURS if policy_named(name).keeps_memory_budget]
        require_known([policy], keeping, "--policy")


def _require_places(output: Path | None, plot: Path | None, dump_ir: Path | None) -> None:
    """Refuse paths that cannot be written, before anything is searched."""
    from tvm_ios.plot import require_picture

    if plot is not None:
        require_picture(plot)
    if output is not None:
        require_writable(output)
    if dump_ir is not None:
        from relay_passes.search_options import require_dump_folder

        require_dump_folder(dump_ir)


def _measured_module(
    source: ModelSource, options: SearchOptions, update: Progress
) -> tuple[MeasuredModule[Any], Tail | None]:
    from relay_passes.load import load_model

    loaded = load_model(source, update, options.dump_ir, options=options)
    from relay_passes.measured_module import measured_module

    return measured_module(loaded.prepared(options.dump_ir), options, update), loaded.tail


def _problem(
    source: ModelSource, max_block: int, dump_ir: Path | None, update: Progress
) -> tuple[Problem, Prepared | None, Tail | None]:
    """Return what there is to schedule of a model; read by TVM if its IR is to be dumped."""
    from tvm_ios.api.units import problem_and_tail
    from tvm_ios.policies.policy import Problem

    if dump_ir is None:
        problem, tail = problem_and_tail(source, max_block)
        return problem, None, tail
    if source.form in (Form.GRAPH, Form.BARE):
        refuse(f"{source.model} is {source.form.value}, without a module", {"--dump-ir": dump_ir})
    from relay_passes.load import load_model

    loaded = load_model(source, update, dump_ir)
    prepared = loaded.prepared(dump_ir)
    operators = prepared.outliner.extraction.graph
    return Problem.of(prepared.units, max_block, operators), prepared, loaded.tail


def _described(
    source: ModelSource,
    cost: tuple[str, str | None],
    blocks: BlockOptions,
    reuse: bool,
    update: Progress,
    dump_ir: Path | None,
) -> tuple[Search, Prepared | None, Tail | None]:
    from tvm_ios.costs.named import costs_named
    from tvm_ios.ios.ending_space import Pruning
    from tvm_ios.policies.policy import Limits
    from tvm_ios.search import Search

    costs = costs_named(*cost)
    problem, prepared, tail = _problem(source, blocks.max_block, dump_ir, update)
    pruning = Pruning(blocks.r, blocks.s)
    limits = Limits(pruning=pruning, max_block=blocks.max_block, reuse=reuse)
    return Search(problem, costs, limits, update), prepared, tail


def _statistics(
    result: Found, module: MeasuredModule[Any] | None, measured: bool
) -> dict[str, Any]:
    statistics = result.statistics
    return {
        "seconds": 0.0 if statistics is None else statistics.seconds,
        "states": 0 if statistics is None else statistics.states or 0,
        "transitions": 0 if statistics is None else statistics.transitions or 0,
        "stages_measured": 0 if module is None else module.timer.stages_measured,
        **({"left_out": result.left_out} if measured and statistics is not None else {}),
        **({} if module is None else fleet_report(module.options.fleet)),
    }
