"""Peak memory by scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from benchmarks.papers.row import How, Row
from benchmarks.papers.steps import Steps
from tvm_ios.memory.footprint import Counting
from tvm_ios.memory.operators import with_activations, with_biases
from tvm_ios.memory.options import SchedulerOptions
from tvm_ios.memory.problem import MemoryProblem, memory_problem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
from tvm_ios.models.load import load_operators

#: Seconds of each scheduler, as in the publication.
_LIMIT = 30.0

#: So reverse post-order needs on NASNet-A what is published; on HRNets it does from the inputs.
_FROM_OUTPUTS = ("--rpo-from", "outputs")

#: The network of the zoo, and options of ``tvm-ios memory``: what is counted, and where reverse
#: post-order begins.
NETWORKS: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "NASNet-A": ("nasnet_a_mobile", _FROM_OUTPUTS),
        "AmoebaNet-A": ("amoebanet_a", _FROM_OUTPUTS),
        "Darts": ("darts", ("--in-place",)),
        "Randwire1": ("randwire_small_1", ()),
        "Randwire2": ("randwire_small_2", ()),
        "Randwire3": ("randwire_small_3", ()),
        "HRNet-W18-V1": ("hrnet_w18_small_v1_256", ("--fuse-activations",)),
        "HRNet-W18-V2": ("hrnet_w18_small_v2_256", ("--fuse-activations",)),
        "HRNet-W32": ("hrnet_w32_256", ("--fuse-activations",)),
    }
)

#: Why peaks differ by more than a quarter.
_NOTES: Mapping[str, str] = MappingProxyType(
    {
        "AmoebaNet-A": "the published network needs twice as much; this one has the parameters and "
        "the multiply-adds of its authors' table",
        "Randwire": "other random graphs, drawn anew; peaks are multiples of 238.9 KiB in both",
        "Darts": "the published order is not known; the optimum is the same",
    }
)


def peaks(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Peaks of reverse post-order, SERENITY, HMCOS and the method (table II)."""
    for label, values in published.items():
        network, options = NETWORKS[label]
        for scheduler, value in values.items():
            ours = steps.once(peak, network, options, scheduler, _LIMIT)
            yield Row(
                f"{label}, {scheduler}",
                value,
                ours["peak"] / 1024,
                "KB",
                How.COUNTED,
                command=command(network, options),
                note=why_other(label),
            )


def why_other(label: str) -> str:
    """Why the peaks of a network may differ from the published ones; empty if they agree."""
    return _NOTES.get(label.rstrip("123"), "")


def seconds(published: Mapping[str, Any], steps: Steps) -> Iterator[Row]:
    """Seconds of HMCOS and of the method, and which of them is faster (table III)."""
    for label, values in published.items():
        network, options = NETWORKS[label]
        ours = {
            scheduler: steps.once(peak, network, options, scheduler, _LIMIT)["seconds"]
            for scheduler in values
        }
        alone = steps.once(peak, network, options, "fusion-ilp", _LIMIT, False)
        for scheduler, value in values.items():
            yield seconds_row(f"{label}, {scheduler}", value, ours[scheduler], _LIMIT)
        yield Row(
            f"{label}, fusion-ilp from reverse post-order",
            None,
            alone["seconds"],
            "s",
            How.MEASURED,
            note="without the exact search's starts and bounds: CP-SAT solves each program",
            comparable=False,
        )
        theirs = None
        if not any(isinstance(value, str) for value in values.values()):
            theirs = values["hmcos"] / values["fusion-ilp"]
        yield Row(
            f"{label}, speed-up",
            theirs,
            ours["hmcos"] / ours["fusion-ilp"],
            "x",
            How.MEASURED,
            command=command(network, options),
            note=f"{_START}; HMCOS proves nothing",
            neutral=1.0,
        )


def seconds_row(label: str, published: float | str, ours: float, limit: float) -> Row:
    """Seconds of a search, which are of another machine, and of CP-SAT in Gurobi's place."""
    note = "another machine, and CP-SAT in Gurobi's place"
    ended = "" if ours < limit else f"; ended after {limit:.0f} s here"
    return Row(label, published, ours, "s", How.MEASURED, note=note + ended, comparable=False)


#: What ends the searches of fusion-ilp.
_START = (
    "the exact search gives each part its start and bound, and where these meet no integer "
    "program is left to solve"
)


def command(network: str, options: Sequence[str], *more: str) -> str:
    """The command that prints a peak."""
    return " ".join(("tvm-ios memory", network, *options, *more))


def scheduler_options_of(options: Sequence[str]) -> SchedulerOptions:
    """Where reverse post-order begins by options of ``tvm-ios memory``."""
    return SchedulerOptions(rpo_from="outputs" if "outputs" in options else "inputs")


def problem_of(network: str, options: Sequence[str]) -> MemoryProblem:
    """What is to be ordered of a network of the zoo, counted by options of ``tvm-ios memory``."""
    operators = load_operators(network)
    fused = "--fuse-activations" in options
    graph = with_activations(operators) if fused else with_biases(operators)
    return memory_problem(graph, Counting("--in-place" in options))


def peak(
    network: str,
    options: Sequence[str],
    scheduler: str,
    limit: float,
    exact_start: bool = True,
) -> dict[str, float | bool]:
    """The peak of one scheduler on a network of the zoo, in bytes, and its seconds."""
    scheduler_options = replace(scheduler_options_of(options), exact_start=exact_start)
    ordered = MEMORY_SCHEDULERS[scheduler](problem_of(network, options), limit, scheduler_options)
    return {"peak": ordered.peak, "seconds": ordered.seconds, "proven": ordered.proven}
