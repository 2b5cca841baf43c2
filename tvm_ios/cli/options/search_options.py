"""Options that commands which search have in common."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tvm_ios.cli.frame import panels
from tvm_ios.cli.options.completion import complete_device, complete_policies
from tvm_ios.cli.options.fleet import open_fleet
from tvm_ios.cli.options.values import names_in, refuse, require_known
from tvm_ios.contest.outputs import Verify
from tvm_ios.errors import UserError
from tvm_ios.policies.registry import policy_names

if TYPE_CHECKING:
    from relay_passes.search_options import SearchOptions
    from runtime_ext.fleet.choice import FleetChoice

#: The default number of a GPU's streams: as many as a stage has groups, at most.
STREAMS = 8
#: The most lanes for each CPU: enough for any test, and few enough to finish.
_TURNS = 16


class MeasureMode(StrEnum):
    """The stages that a search measures: those that may matter, or all."""

    lazy = "lazy"
    full = "full"


class Objective(StrEnum):
    """The figure by which a program is chosen: latency or throughput."""

    latency = "latency"
    throughput = "throughput"


class Fallback(StrEnum):
    """The runtime whose build is kept if it is faster than all programs of ours."""

    tvm = "tvm"
    onnxruntime = "onnxruntime"
    none = "none"

    @property
    def runtimes(self) -> tuple[str, ...]:
        """The runtimes to compare with: this one, and those before it."""
        names = tuple(Fallback)
        return () if self is Fallback.none else names[: names.index(self) + 1]


class TargetKind(StrEnum):
    """The kind of target to compile for: a CPU (llvm) or a GPU (cuda)."""

    llvm = "llvm"
    cuda = "cuda"


class Winograd(StrEnum):
    """Permission to compute convolutions by Winograd's filtering."""

    auto = "auto"
    off = "off"


class DialectName(StrEnum):
    """The IR of TVM that a model is read as."""

    relax = "relax"
    relay = "relay"


class Precision(StrEnum):
    """The number format in which a GPU or a CPU computes."""

    float32 = "float32"
    tf32 = "tf32"
    float16 = "float16"
    bfloat16 = "bfloat16"


class ChainsMode(StrEnum):
    """Permission to use chains of units in schedules."""

    auto = "auto"
    off = "off"


Cudnn = Annotated[
    bool | None,
    panels.target(
        "--cudnn/--no-cudnn",
        help="Measure cuDNN's convolutions beside our own.  [where it and a GPU are]",
    ),
]
Arch = Annotated[
    str | None,
    panels.target(help="x86-64-v2, -v3 or -v4, or sm_90 and the like.  [this machine's, sm_90]"),
]
DeviceName = Annotated[
    str | None,
    panels.target(
        "--device",
        metavar="NAME",
        help="Time on a device that another package adds: a simulator, a board, a recording.",
        autocompletion=complete_device,
    ),
]
PrecisionOption = Annotated[
    Precision | None,
    panels.target(
        "--precision",
        help="float32; on a CPU bfloat16, of the weights of units that are faster so; on a GPU "
        "tf32, of what is multiplied, or float16, of all tensors (also on an accelerator).",
    ),
]
Policies = Annotated[
    str | None,
    panels.search(
        metavar="NAMES",
        help=f"Policies to try, between commas, instead of all that can be: "
        f"{', '.join(policy_names())}.",
        autocompletion=complete_policies,
    ),
]
Lanes = Annotated[
    int | None, panels.running(min=1, help="Threads, or streams.  [all CPUs, 8 streams]")
]
TuningLog = Annotated[
    Path | None,
    panels.running(
        "--log", help="Tuned kernels: a MetaSchedule database (folder); for Relay an AutoTVM log."
    ),
]
MemoryBudget = Annotated[
    str | None,
    panels.limits(metavar="BYTES", help="What tensors between units may take: 800000, 512K, 1.5M."),
]
TimeLimit = Annotated[
    float | None,
    panels.limits(
        "--time-limit",
        "--seconds",
        help="Seconds of all the work, about: what is left out then is told, and a program that "
        "runs units one after another is saved in any case.",
    ),
]
DumpIr = Annotated[
    Path | None,
    panels.output(
        "--dump-ir",
        metavar="DIR",
        help="Write what stands between the phases into this folder: TVMScript, else JSON.",
    ),
]
ObjectiveOption = Annotated[
    Objective,
    panels.search(
        "--objective",
        help="The least time of one request, or the most requests a second when many wait.",
    ),
]
Verification = Annotated[
    Verify,
    panels.running(
        "--verify",
        help="Compare with: onnx: ONNX Runtime or onnx.reference (for .pt2 PyTorch), else TVM's "
        "own build; tvm: this alone; off: nothing.",
    ),
]


DialectOption = Annotated[
    DialectName, panels.model("--dialect", help="relay: with a TVM that has it, 0.11 to 0.19.")
]
WinogradOption = Annotated[
    Winograd,
    panels.target(
        "--winograd",
        help="auto: measure convolutions by Winograd's filtering beside the direct ones, on a CPU.",
    ),
]
Target = Annotated[TargetKind, panels.target(help="llvm: a CPU; cuda: an NVIDIA GPU.")]
MaxBlock = Annotated[int, panels.search(min=1, help="Units a block, at most.")]


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """Options: the target and the precision to compile for, and the dialect to read as."""

    dialect: DialectOption = DialectName.relax
    target: Target = TargetKind.llvm
    precision: PrecisionOption = None


@dataclass(frozen=True, kw_only=True)
class BlockOptions:
    """Options: limits of groups, stages and blocks."""

    r: Annotated[int, panels.search("-r", min=1, help="Units a group, at most.")] = 3
    s: Annotated[
        int, panels.search("-s", min=1, help="Groups a stage, at most, but for greedy's.")
    ] = 8
    max_block: MaxBlock = 40


@dataclass(frozen=True, kw_only=True)
class MeasuringOptions(BlockOptions):
    """Options: limits of a search, and the stages and forms that it measures."""

    winograd: WinogradOption = Winograd.auto
    chains: Annotated[
        ChainsMode,
        panels.search(
            help="auto: on a CPU, units that one kernel computes faster tile by tile are chains; "
            "off: none are."
        ),
    ] = ChainsMode.auto
    measure: Annotated[
        MeasureMode, panels.search(help="lazy: stages that may matter; full: all of them.")
    ] = MeasureMode.lazy
    max_measurements: Annotated[int | None, panels.limits(help="Stages to measure, at most.")] = 400


def chosen_policies(text: str | None, allowed: Sequence[str] | None = None) -> Sequence[str] | None:
    """Return the policies that ``--policy`` names; None without it.

    A name that is not allowed (by default: known) is a wrong use.
    """
    if text is None:
        return None
    names = names_in(text)
    require_known(names, policy_names() if allowed is None else allowed, "--policy")
    return names


def search_options(
    lanes: int | None,
    measuring: MeasuringOptions,
    *,
    compiled: CompileOptions = CompileOptions(),
    arch: str | None = None,
    log: Path | None = None,
    time_limit: float | None = None,
    cudnn: bool | None = None,
    runs_here: bool = True,
    device: str | None = None,
    fleet: FleetChoice | None = None,
    dump_ir: Path | None = None,
) -> SearchOptions:
    """Return the options of the search; announce the lanes to TVM before it is imported."""
    from runtime_ext.machine.this_machine import announce_lanes, available_lanes
    from runtime_ext.named_target import target_of
    from tvm_ios.measuring.timing_device import open_timing_device

    opened = opened_fleet = None
    is_cuda, is_relay = compiled.target is TargetKind.cuda, compiled.dialect is DialectName.relay
    if fleet is not None:
        refuse("a fleet measures, or a device", {"--device": device is not None})
        refuse("a fleet measures on CPUs", {"--target": is_cuda})
        refuse("a fleet times programs of Relax", {"--dialect": is_relay})
        opened_fleet = open_fleet(fleet, lanes, arch)
        lanes, arch = opened_fleet.lanes, opened_fleet.level
    elif device is not None:
        refuse("the device says for what is compiled", {"--arch": arch is not None})
        refuse("it times programs of Relax", {"--device": is_relay})
        opened = open_timing_device(device)
        lanes = lanes or opened.lanes
    elif is_cuda:
        lanes = lanes or STREAMS
    elif lanes is not None and runs_here:
        _compare_with_cpus(lanes, available_lanes())
    lanes = lanes or available_lanes()
    announce_lanes(lanes)
    from relay_passes.search_options import SearchOptions
    from tvm_ios.ios.ending_space import Pruning
    from tvm_ios.ios.lazy import Budget
    from tvm_ios.policies.policy import Limits

    dialect, kind = compiled.dialect.value, compiled.target.value
    everything = measuring.measure is MeasureMode.full
    return SearchOptions(
        lanes=lanes,
        target=None if opened_fleet else target_of(kind, arch, lanes, dialect),
        database=log,
        precision="" if compiled.precision is None else compiled.precision.value,
        cudnn=cudnn,
        chains=measuring.chains is ChainsMode.auto,
        winograd=measuring.winograd.value,
        device=opened,
        fleet=opened_fleet,
        dump_ir=dump_ir,
        limits=Limits(
            pruning=Pruning(measuring.r, measuring.s),
            max_block=measuring.max_block,
            budget=Budget(measuring.max_measurements, time_limit, everything),
        ),
    )


def _compare_with_cpus(lanes: int, cpus: int) -> None:
    """Warn if there are more lanes than CPUs, and refuse very many."""
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
