"""``tvm-ios bench``: our programs beside peers, in one run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runtime_ext.peers.registry import (
    OURS,
    available_peers,
    peer_names,
    peers_to_compare,
    require_log,
)
from tvm_ios.cli.bench_range import bench_range_command, range_to_bench
from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Reporting, print_json, progress_bars, reports_errors
from tvm_ios.cli.options.completion import complete_cost, complete_model, complete_peers
from tvm_ios.cli.options.model import Batch, RandomWeights, Shapes, input_shapes
from tvm_ios.cli.options.search_options import (
    CompileOptions,
    DeviceName,
    DialectName,
    DialectOption,
    Lanes,
    MeasuringOptions,
    Objective,
    ObjectiveOption,
    Policies,
    PrecisionOption,
    TuningLog,
    Verification,
    chosen_policies,
    search_options,
)
from tvm_ios.cli.options.values import names_in, refuse, require_known
from tvm_ios.cli.tables.benched import print_benched, print_served_beside_peers, tell_failures
from tvm_ios.cli.tables.result import print_result
from tvm_ios.contest.outputs import Verify
from tvm_ios.contest.rules import BENCH, BENCH_PROCESSES, Rules
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder, write_atomically
from tvm_ios.program.bfloat16 import FORM

if TYPE_CHECKING:
    from runtime_ext.peers.peer import Peer
    from tvm_ios.api.options import Options
    from tvm_ios.models.source import ModelSource

#: The peers on CPUs that come with tvm-ios.
OURS_ON_CPU = tuple(name for name, peer in OURS.items() if "cpu" in peer.devices)


PAGE = HelpPage(
    (
        "tvm-ios bench squeezenet resnet50 --against onnxruntime,tvm -o bench.json",
        "tvm-ios bench encoder.onnx --shape input_ids:1..32,1..512 --at 1x32,8x128",
    ),
    "`tvm-ios explain` on what `--keep` kept says why a network is not faster.",
)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Options: how long runners are timed, and in how many processes."""

    rounds: Annotated[int, panels.running(min=6, help="Runs of each runner, at most.")] = (
        BENCH.rounds
    )
    seconds: Annotated[float, panels.running(min=0, help="Time of all runs of a model, about.")] = (
        BENCH.seconds
    )
    processes: Annotated[
        int,
        panels.running(min=1, help="Fresh processes that share them; a 95 % interval takes six."),
    ] = BENCH_PROCESSES

    @property
    def rules(self) -> Rules:
        """The rules of the contest."""
        return replace(
            BENCH,
            rounds=self.rounds,
            seconds=self.seconds,
            minimum=min(self.rounds, BENCH.minimum),
            hopeless_seconds=min(self.seconds, BENCH.hopeless_seconds),
        )


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Options: files that a run of the command keeps, and that the next one takes up."""

    output: Annotated[
        Path | None, panels.output("-o", "--output", help="Write the JSON here as well.")
    ] = None
    resume: Annotated[
        bool,
        panels.output(
            "--resume", help="Add to what --output has; what it has is not measured again."
        ),
    ] = False
    keep: Annotated[
        Path | None,
        panels.output(metavar="FOLDER", help="Keep the executables, and use those that fit again."),
    ] = None


Against = Annotated[
    str,
    panels.running(
        help=f"Peers, between commas: {', '.join(OURS_ON_CPU)}. all: those that are "
        "installed, without tvm, which is not tuned. With --at also exact.",
        autocompletion=complete_peers,
    ),
]
TimeLimit = Annotated[
    float | None, panels.limits(help="Seconds of optimising each network, about.")
]
Cost = Annotated[
    str | None,
    panels.search(
        help="With --device: what the search goes by, a log (.jsonl) or a device (v100, ...).",
        autocompletion=complete_cost,
    ),
]
Points = Annotated[
    str | None,
    panels.model(
        "--at",
        metavar="1x32,8x128",
        help="Shapes in a range in --shape: the extents of its open dimensions, in order.",
    ),
]
Networks = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL...", help="Zoo names, .onnx or .pt2 files.", autocompletion=complete_model
    ),
]


@reports_errors
def bench(
    models: Networks,
    reporting: Reporting,
    measuring: MeasuringOptions,
    timing: Timing,
    kept: Kept,
    against: Against = "onnxruntime",
    objective: ObjectiveOption = Objective.latency,
    policy: Policies = None,
    shape: Shapes = None,
    at: Points = None,
    batch: Batch = None,
    dialect: DialectOption = DialectName.relax,
    device: DeviceName = None,
    cost: Cost = None,
    precision: PrecisionOption = None,
    lanes: Lanes = None,
    random_weights: RandomWeights = None,
    log: TuningLog = None,
    time_limit: TimeLimit = None,
    verify: Verification = Verify.onnx,
) -> None:
    """Optimise models and time them beside peers on as many threads.

    Our programs are verified as `optimize` does. Peers read the model as it is written, or what
    only we can write for them (PyTorch and TVM: the simplified model, quantised operators in
    floats), and the same inputs; outputs are compared before anything is timed, then all run in
    turn, in fresh processes for each model: where a program lies in memory is worth a percent or
    two, so the 95 % interval is that of the processes' medians. `taken` is the part of the
    operators that the backend of a peer runs: ExecuTorch runs what XNNPACK lacks itself. A model
    or a peer that fails is reported, files that cannot be read before anything is measured, and
    the others go on. Of a model whose end runs after the program, what is before this end is
    compared and timed. With --device, no peer runs there: policies are compared with the
    sequential program. With --objective throughput, what `optimize` keeps for that serves many
    requests beside peers with their settings for it, and requests a second are compared. With a
    range in --shape, the one program for it is timed at the shapes of --at, beside peers that
    leave dimensions open, and `exact`: our sequential program of just the shape.
    """
    serving, output = objective is Objective.throughput, kept.output
    others = {
        **{"--objective": serving, "--batch": batch, "--device": device, "--log": log},
        **{"--cost": cost},
        **{"--random-weights": random_weights is not None},
        **{"--resume": kept.resume, "--keep": kept.keep},
    }
    compiled = CompileOptions(dialect=dialect, precision=precision)
    if (
        of_range := range_to_bench(models, shape or (), at, others, compiled, measuring)
    ) is not None:
        return bench_range_command(
            models[0],
            *of_range,
            against,
            policy=policy,
            lanes=lanes,
            time_limit=time_limit,
            verify=verify,
            output=output,
            timing=asdict(timing),
            rules=timing.rules,
            reporting=reporting,
        )
    all_peers = partial(peers_to_compare, with_log=log is not None, serving=serving)
    against_names = list(all_peers()) if against == "all" else names_in(against)
    shapes = input_shapes(shape)
    if device is None:
        refuse("without a --device everything is measured here", {"--cost": cost})
    if serving:
        refuse("requests are served by this CPU", {"--device": device is not None})
    search = search_options(
        lanes,
        measuring,
        compiled=compiled,
        log=log,
        time_limit=time_limit,
        device=device,
    )
    from tvm_ios.api.options import Options

    policies = chosen_policies(policy)
    options = Options(search=search, policies=policies, cost=cost, verify=verify)
    from runtime_ext.cpu.machine_description import describe_machine
    from tvm_ios.bench.bench import bench as bench_latency
    from tvm_ios.bench.document import BenchDocument
    from tvm_ios.bench.material import log_digest
    from tvm_ios.bench.models import bench_models
    from tvm_ios.bench.throughput import bench_throughput
    from tvm_ios.models.load import load_operators
    from tvm_ios.models.source import ModelSource

    sources = [ModelSource(m, random_weights, shapes, batch, dialect.value) for m in models]
    if device is not None:
        return _bench_on_device(sources, options, output, reporting.as_json)
    require_known(against_names, peer_names("cpu"), "--against")
    if output is None:
        refuse("there is no --output to resume", {"--resume": kept.resume})
    peers = _peers(against_names, log, serving=serving)
    rounding = [peer.name for peer in peers if peer.in_bfloat16]
    settings = {
        "against": against_names,
        "policies": options.policies,
        "dialect": dialect.value,
        "random_weights": random_weights,
        **({} if batch is None else {"batch": batch}),
        **asdict(timing),
        "search": [
            *(measuring.measure.value, measuring.max_measurements, time_limit),
            *(measuring.r, measuring.s, measuring.max_block),
        ],
        "log": log_digest(log),
        **({} if precision is None else {"precision": precision.value}),
        **({"in_bfloat16": rounding} if rounding and search.precision == FORM else {}),
        # Documents begun before this option existed lack the default.
        **({} if verify is Verify.onnx else {"verify": verify.value}),
        **({"objective": objective.value} if serving else {}),
    }
    if output is not None and output.is_dir():
        raise UserError(f"{output} is a folder: name a file for the results")
    run = partial(
        bench_throughput if serving else bench_latency,
        options=options,
        against=against_names,
        rules=timing.rules,
        processes=timing.processes,
    )
    if len(sources) == 1 and Path(models[0]).suffix == ".onnx":
        # Refuse a file that is no model before TVM is imported and the machine is measured.
        load_operators(sources[0])
    with progress_bars() as update, temporary_folder() as folder:
        update("measuring the machine", 0, 1)
        libraries = [peer.library for peer in peers if peer.library]
        document = BenchDocument(describe_machine(search.lanes, libraries), settings, shapes)
        update("measuring the machine", 1, 1)
        if kept.resume and output is not None:
            document.resume(output)
        if output is not None and not output.is_file():
            # Write now rather than after an hour: the file may not be writable.
            document.save(output)
        bench_models(
            dict(zip(_names_of(models), sources, strict=True)),
            document,
            run,
            kept.keep or folder,
            output=output,
            raises=reporting.debug or len(models) == 1,
            progress=update,
            tell=update.tell,
        )
    show = print_served_beside_peers if serving else print_benched
    (print_json if reporting.as_json else show)(document.to_json())
    tell_failures(document)


def _peers(names: Sequence[str], log: Path | None, *, serving: bool) -> tuple[Peer, ...]:
    """Return the peers of these names, after checking that each is installed and can run."""
    peers = available_peers(names)
    require_log(peers, log)
    for peer in peers if serving else ():
        peer.require_server()
    return peers


def _names_of(models: Sequence[str]) -> list[str]:
    """Return the names of models, after checking that they differ."""
    names = [Path(model).stem for model in models]
    if twin := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"two of the models are named {twin}: rename a file, or measure one by one")
    return names


def _bench_on_device(
    models: Sequence[ModelSource], options: Options, output: Path | None, as_json: bool
) -> None:
    """Time the policies of some models on the options' device, and print each model's table."""
    from tvm_ios.api import optimize

    results: list[dict[str, Any]] = []
    for model in models:
        with progress_bars() as update:
            result = optimize(model, None, options, update)
        results.append(result.to_json())
        if not as_json:
            print_result(result)
        if output is not None:
            write_atomically(output, json.dumps({"networks": results}, indent=1).encode())
    if as_json:
        print_json({"networks": results})
