"""Options that commands which search have in common."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvm_ios.cli.options.completion import complete_device, complete_policies
from tvm_ios.cli.options.fleet import open_fleet
from tvm_ios.cli.options.values import names_in, refuse, require_known
from tvm_ios.contest.outputs import Verify
from tvm_ios.errors import UserError
from tvm_ios.policies.registry import policy_names

if TYPE_CHECKING:
    from relay_passes.search_options import SearchOptions
    from runtime_ext.fleet.choice import FleetChoice

#: As many as a stage has groups, at most.
STREAMS = 8
#: Lanes that may take turns on a CPU: enough for any test, and few enough to come to an end.
_TURNS = 16


class MeasureMode(StrEnum):
    """Which stages are measured."""

    lazy = "lazy"
    full = "full"


class Objective(StrEnum):
    """What a program is to be best at."""

    latency = "latency"
    throughput = "throughput"


class Fallback(StrEnum):
    """Whose build is kept where it is faster than all of ours."""

    tvm = "tvm"
    onnxruntime = "onnxruntime"
    none = "none"

    @property
    def runtimes(self) -> tuple[str, ...]:
        """The runtimes to compare with."""
        names = tuple(Fallback)
        return () if self is Fallback.none else names[: names.index(self) + 1]


class TargetKind(StrEnum):
    """What is compiled for."""

    llvm = "llvm"
    cuda = "cuda"


class Winograd(StrEnum):
    """Whether convolutions may be computed by Winograd's filtering."""

    auto = "auto"
    off = "off"


class DialectName(StrEnum):
    """Which IR of TVM a model is read as."""

    relax = "relax"
    relay = "relay"


class Precision(StrEnum):
    """In which a GPU or a CPU computes."""

    float32 = "float32"
    tf32 = "tf32"
    float16 = "float16"
    bfloat16 = "bfloat16"


class ChainsMode(StrEnum):
    """Whether schedules have chains of units."""

    auto = "auto"
    off = "off"


Chains = Annotated[
    ChainsMode,
    typer.Option(
        "--chains",
        help="auto: on a CPU, units that one kernel computes faster tile by tile are chains; off: "
        "none are.",
    ),
]
Target = Annotated[TargetKind, typer.Option(help="llvm: a CPU; cuda: an NVIDIA GPU.")]
DialectOption = Annotated[
    DialectName, typer.Option("--dialect", help="relay: with a TVM that has it, 0.11 to 0.19.")
]
Cudnn = Annotated[
    bool | None,
    typer.Option(
        "--cudnn/--no-cudnn",
        help="Measure cuDNN's convolutions beside our own.  [where it and a GPU are]",
    ),
]
WinogradOption = Annotated[
    Winograd,
    typer.Option(
        "--winograd",
        help="auto: measure convolutions by Winograd's filtering beside the direct ones, on a CPU.",
    ),
]
Arch = Annotated[
    str | None,
    typer.Option(help="x86-64-v2, -v3 or -v4, or sm_90 and the like.  [this machine's, sm_90]"),
]
DeviceName = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="Time on a device that another package adds: a simulator, a board, a recording.",
        autocompletion=complete_device,
    ),
]
PrecisionOption = Annotated[
    Precision | None,
    typer.Option(
        "--precision",
        help="float32; on a CPU bfloat16, of the weights of units that are faster so; on a GPU "
        "tf32, of what is multiplied, or float16, of all tensors (also on an accelerator).",
    ),
]
Policies = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help=f"Policies to try, between commas, instead of all that can be: "
        f"{', '.join(policy_names())}.",
        autocompletion=complete_policies,
    ),
]
Lanes = Annotated[
    int | None, typer.Option(min=1, help="Threads, or streams.  [all CPUs, 8 streams]")
]
TuningLog = Annotated[
    Path | None,
    typer.Option(
        "--log", help="Tuned kernels: a MetaSchedule database (folder); for Relay an AutoTVM log."
    ),
]
Measure = Annotated[
    MeasureMode, typer.Option(help="lazy: stages that may matter; full: all of them.")
]
MaxMeasurements = Annotated[int | None, typer.Option(help="Stages to measure, at most.")]
MemoryBudget = Annotated[
    str | None,
    typer.Option(metavar="BYTES", help="What tensors between units may take: 800000, 512K, 1.5M."),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        "--seconds",
        help="Seconds of all the work, about: what is left out then is told, and a program that "
        "runs units one after another is saved in any case.",
    ),
]
SearchTime = Annotated[
    float | None, typer.Option("--time-limit", help="Seconds of a policy's search, at most.")
]
ObjectiveOption = Annotated[
    Objective,
    typer.Option(
        "--objective",
        help="The least time of one request, or the most requests a second when many wait.",
    ),
]
Verification = Annotated[
    Verify,
    typer.Option(
        "--verify",
        help="Compare with: onnx: ONNX Runtime or onnx.reference (for .pt2 PyTorch), else TVM's "
        "own build; tvm: this alone; off: nothing.",
    ),
]
OperatorsAGroup = Annotated[int, typer.Option("-r", min=1, help="Units a group, at most.")]
GroupsAStage = Annotated[
    int, typer.Option("-s", min=1, help="Groups a stage, at most, but for greedy's.")
]
MaxBlock = Annotated[int, typer.Option(min=1, help="Units a block, at most.")]


def chosen_policies(text: str | None, allowed: Sequence[str] | None = None) -> Sequence[str] | None:
    """The policies that ``--policy`` names, of those that are allowed or all; None without it."""
    if text is None:
        return None
    names = names_in(text)
    require_known(names, policy_names() if allowed is None else allowed, "--policy")
    return names


def search_options(
    lanes: int | None,
    measure: MeasureMode | None,
    max_measurements: int | None,
    time_limit: float | None,
    r: int,
    s: int,
    max_block: int,
    log: Path | None = None,
    *,
    target: TargetKind = TargetKind.llvm,
    arch: str | None = None,
    precision: Precision | None = None,
    dialect: DialectName = DialectName.relax,
    cudnn: bool | None = None,
    chains: ChainsMode = ChainsMode.auto,
    winograd: Winograd = Winograd.auto,
    runs_here: bool = True,
    device: str | None = None,
    fleet: FleetChoice | None = None,
) -> SearchOptions:
    """The options as the search takes them; prepares the process for TVM, which it imports."""
    from runtime_ext.machine.this_machine import available_lanes
    from runtime_ext.named_target import target_of
    from tvm_ios.measuring.timing_device import open_timing_device

    opened = opened_fleet = None
    if fleet is not None:
        refuse("a fleet measures, or a device", {"--device": device is not None})
        refuse("a fleet measures on CPUs", {"--target": target is TargetKind.cuda})
        refuse("a fleet times programs of Relax", {"--dialect": dialect is DialectName.relay})
        opened_fleet = open_fleet(fleet, lanes, arch)
        lanes, arch = opened_fleet.lanes, opened_fleet.level
    elif device is not None:
        refuse("the device says for what is compiled", {"--arch": arch is not None})
        refuse("it times programs of Relax", {"--device": dialect is DialectName.relay})
        opened = open_timing_device(device)
        lanes = lanes or opened.lanes
    elif target is TargetKind.cuda:
        lanes = lanes or STREAMS
    elif lanes is not None and runs_here:
        _compare_with_cpus(lanes, available_lanes())
    lanes = lanes or available_lanes()
    # TVM reads this once, when its thread pool starts: before anything else runs a kernel.
    os.environ["TVM_NUM_THREADS"] = str(lanes)
    from relay_passes.search_options import SearchOptions
    from tvm_ios.ios.ending_space import Pruning
    from tvm_ios.ios.lazy import Budget
    from tvm_ios.policies.policy import Limits

    return SearchOptions(
        lanes=lanes,
        target=None if opened_fleet else target_of(target.value, arch, lanes, dialect.value),
        database=log,
        precision="" if precision is None else precision.value,
        cudnn=cudnn,
        chains=chains is ChainsMode.auto,
        winograd=winograd.value,
        device=opened,
        fleet=opened_fleet,
        limits=Limits(
            pruning=Pruning(r, s),
            max_block=max_block,
            budget=Budget(max_measurements, time_limit, measure is MeasureMode.full),
        ),
    )


def _compare_with_cpus(lanes: int, cpus: int) -> None:
    """Say that lanes take turns where there are more than CPUs, and refuse very many."""
    if lanes > _TURNS * cpus:
        raise UserError(
            f"{lanes} lanes are too many for the CPUs of this process ({cpus}): give --lanes "
            f"{cpus}, or at most {_TURNS * cpus}"
        )
    if lanes > cpus:
        print(
            f"tvm-ios: {lanes} lanes take turns on the CPUs of this process ({cpus}), which is "
            f"slower than --lanes {cpus}",
            file=sys.stderr,
        )
