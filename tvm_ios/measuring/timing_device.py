"""The interface of devices that time programs: a GPU, a simulator, a board or a recording.

Other packages add them by entry points of the group :data:`GROUP`, each a function without
parameters that opens a :class:`TimingDevice`. ``docs/devices.md`` has an example.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal, Protocol, runtime_checkable

from tvm_ios.devices.device import DeviceDescription
from tvm_ios.errors import UserError
from tvm_ios.extensions import ExtensionError, extensions, load_extension
from tvm_ios.files.array_files import Array
from tvm_ios.measuring.launch_graph import LaunchGraph

#: The entry-point group of the timing devices of other packages.
GROUP = "tvm_ios.timing_devices"


#: Whether persistent kernels run; ``"volatile"`` if so, but without scoped accesses and fences:
#: their blocks wait by volatile accesses and ``membar``.
Persistence = bool | Literal["volatile"]


class UntimedError(UserError):
    """A device has no time of a graph; the message says why in one sentence."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Properties of the times that a device returns."""

    #: Seconds of a graph of one launch that are not work of its kernel; 0 if times begin with a
    #: kernel's first instruction and end with its last.
    launch_overhead: float
    #: Whether equal graphs always take the same time. A graph is then timed only once.
    exact: bool = True
    #: Seconds from the end of a launch to the begin of one that waits for it.
    edge: float = 1e-6
    #: How many graphs may be asked for at once, each by a thread of its own.
    concurrency: int = 1


@dataclass(frozen=True, slots=True)
class Timed:
    """The time of a graph."""

    #: Seconds of runs; one is enough if times are exact.
    samples: tuple[float, ...]
    #: For each launch its begin and end in one of these runs, in seconds since the run's begin;
    #: empty if the device cannot tell.
    spans: tuple[tuple[float, float], ...] = ()


@runtime_checkable
class TimingDevice(Protocol):
    """A device that times programs."""

    @property
    def name(self) -> str:
        """The device's name in logs and schedules."""
        ...

    @property
    def version(self) -> str:
        """Anything else that its times depend on, such as a simulator's configuration.

        Logs of different versions are kept apart.
        """
        ...

    @property
    def gpu(self) -> DeviceDescription:
        """The description of the GPU and its multiprocessors, for which kernels are generated."""
        ...

    @property
    def arch(self) -> str:
        """The architecture to compile for: ``"sm_70"`` (machine code), ``"compute_70"`` (PTX)."""
        ...

    @property
    def lanes(self) -> int:
        """The most launches side by side: the number of streams of programs."""
        ...

    @property
    def persistent(self) -> Persistence:
        """Whether persistent kernels run, whose blocks wait for each other.

        As many blocks have to run at once as the multiprocessors of :attr:`gpu` hold.
        """
        ...

    @property
    def timing(self) -> Timing:
        """The properties of its times."""
        ...

    def time(self, graph: LaunchGraph) -> Timed:
        """Time a graph.

        Raises
        ------
        UntimedError
            If there is no time of it. A search does without such a stage.
        """
        ...


@runtime_checkable
class RunningDevice(TimingDevice, Protocol):
    """A device that also computes, so that programs can be verified on it."""

    def run(self, graph: LaunchGraph, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return a graph's outputs by the names of their buffers, from its inputs by name."""
        ...


def timing_device_names() -> tuple[str, ...]:
    """Return the names of the timing devices that other packages add."""
    return tuple(extensions(GROUP))


#: Names that people try, and what to do instead: they are no timing devices.
_MEANT = {
    **dict.fromkeys(("gpu", "cuda", "nvidia"), "for a GPU give --target cuda"),
    **dict.fromkeys(("cpu", "llvm", "host"), "without --device programs run on this CPU"),
}


def open_timing_device(name: str) -> TimingDevice:
    """Open a timing device by the name of its entry point.

    Raises
    ------
    UserError
        If there is none of the name, the package that adds it is broken, or the device says that
        it cannot be used.
    """
    known = timing_device_names()
    if name not in known:
        if meant := _MEANT.get(name.lower().partition(":")[0]):
            raise UserError(f"there is no timing device {name!r}: {meant}")
        instead = f"there are {', '.join(known)}" if known else "no package here adds any"
        raise UserError(
            f"there is no timing device {name!r}, {instead}: a described device is a --cost, and "
            f"a package adds one that times programs by an entry point of {GROUP}"
        )
    opened: Callable[[], Any] = load_extension(GROUP, name, FunctionType)
    device = _guarded(f"opening the device {name!r}", opened)
    if not isinstance(device, TimingDevice):
        raise ExtensionError(f"what opens the device {name!r} gives no TimingDevice: mend it")
    if device.gpu.multiprocessor is None:
        raise ExtensionError(f"the device {name!r} describes no multiprocessor: give it a GPU's")
    return device


def timed(device: TimingDevice, graph: LaunchGraph) -> Timed:
    """Return a device's time of a graph, after checking that it is plausible.

    Raise UntimedError if the device has no time of the graph, and UserError if the device fails or
    returns an impossible time.
    """
    said = _guarded(f"timing on the device {device.name!r}", lambda: device.time(graph))
    samples, spans = said.samples, said.spans
    if not samples or not all(0 < s < math.inf for s in samples):
        raise UserError(f"the device {device.name!r} gives no times but {samples}: mend it")
    if spans and (
        len(spans) != len(graph.launches) or not all(0 <= b <= e < math.inf for b, e in spans)
    ):
        raise UserError(
            f"the device {device.name!r} gives {len(spans)} spans of {len(graph.launches)} "
            "launches, or some that end before they begin: mend it"
        )
    return said


def outputs_of(
    device: RunningDevice, graph: LaunchGraph, inputs: Mapping[str, Array]
) -> Mapping[str, Array]:
    """Return the outputs that a device computes, or raise UserError if it fails."""
    return _guarded(f"running on the device {device.name!r}", lambda: device.run(graph, inputs))


def _guarded(doing: str, what: Callable[[], Any]) -> Any:
    """Call a function of another package, and turn its failure into a UserError."""
    try:
        return what()
    except UserError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"{doing} failed ({reason})") from error
