"""Engines that run programs on a device, described by what they add to the time of kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from tvm_ios.devices.device import DeviceDescription
from tvm_ios.devices.figure_files import DeviceError, FigureFiles

#: The engine of IOS's authors; this project's captured graphs on GPUs, and lanes on CPUs.
IOS, GRAPH, LANES = "ios", "graph", "lanes"

#: The first compute capability that NVRTC still compiles for.
_FIRST_CAPABILITY = 50
#: Whose kernels an engine runs.
Kernels = Literal["library", "cuda"]

#: The compute capability from which GPUs launch kernels early (programmatic dependent launch).
_EARLY_FROM = 90

_FILES = FigureFiles(
    "engine",
    "engine_data",
    {
        "host_overhead": "s",
        "launch_overhead": "s",
        "early_overhead": "s",
        "library_overhead": "s",
        "stage_overhead": "s",
        "contention_overhead": "a kernel",
        "copy_overhead": "copies",
    },
)


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """The figures of an engine: the seconds that it adds to those of kernels.

    Attributes
    ----------
    name, description
        For people.
    host_overhead
        Seconds between two launches by the thread that launches the kernels of all groups.
    launch_overhead
        Seconds from the end of all kernels that a kernel waits for to its begin.
    early_overhead
        The same for a kernel that is launched early, as it waits for nothing but the one before it
        on its stream, on a device that does so.
    library_overhead
        Seconds until the blocks of a library's convolution run, besides those of any kernel.
    stage_overhead
        Seconds to fork and to join, for a stage of several groups.
    contention_overhead
        The part by which each further kernel at the same time slows the others, besides what
        they share.
    copy_overhead
        Copies of each result of a merged convolution in batches of more than one, in which
        channels of an output do not lie together.
    sources
        For each figure whether it is published, and where, or assumed.
    kernels
        The kernels that it runs: a vendor's library, or those of this project.
    """

    name: str
    description: str
    host_overhead: float
    launch_overhead: float
    early_overhead: float
    library_overhead: float
    stage_overhead: float
    contention_overhead: float
    copy_overhead: float
    sources: Mapping[str, str]
    kernels: Kernels


def load_engine(name: str) -> EngineDescription:
    """Read an engine that comes with the package, or a file of the same form by its path.

    Raise DeviceError if there is none, or its file lacks a figure.
    """
    file = _FILES.load(name)
    kernels: Any = file.data.get("kernels")
    if kernels not in get_args(Kernels):
        raise DeviceError(f"the engine {name} needs 'kernels': {' or '.join(get_args(Kernels))}")
    return EngineDescription(
        file.name, file.description, **file.values, sources=file.sources, kernels=kernels
    )


def engine_names() -> tuple[str, ...]:
    """Return the names of the engines of this package."""
    return _FILES.names()


def edge_seconds(engine: EngineDescription, device: DeviceDescription, *, follows: bool) -> float:
    """Return the seconds from the end of all kernels that a kernel waits for to its begin.

    ``follows`` says whether that is the one before it on its stream alone.
    """
    if follows and device.multiprocessor is not None and launches_early(device.multiprocessor.arch):
        return engine.early_overhead
    return engine.launch_overhead


@cache
def launches_early(arch: str) -> bool:
    """Return whether kernels of an architecture are launched early: it does so, and it pays."""
    graph = load_engine(GRAPH)
    pays = graph.early_overhead < graph.launch_overhead
    return pays and _capability(arch) >= _EARLY_FROM


def engine_of(device: DeviceDescription) -> EngineDescription:
    """Return the engine that runs this project's programs on a device.

    Of a GPU that these are not compiled for it is that of a library's kernels.
    """
    if device.multiprocessor is None:
        return load_engine(LANES)
    is_ours = _capability(device.multiprocessor.arch) >= _FIRST_CAPABILITY
    return load_engine(GRAPH if is_ours else IOS)


def _capability(arch: str) -> int:
    """Return the compute capability of an architecture (90 of ``sm_90a``); 0 if it has none."""
    digits = arch.removeprefix("sm_").rstrip("af")
    return int(digits) if digits.isdigit() else 0
