"""Devices described by a few figures, each with its source, from which costs are estimated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tvm_ios.devices.figure_files import DeviceError, FigureFiles
from tvm_ios.errors import nearest
from tvm_ios.extensions import extensions, load_extension
from tvm_ios.files.json_text import JsonError
from tvm_ios.files.plain_data import read_as

#: The entry points of other packages' devices: a :class:`DeviceDescription`, or the path of a file.
GROUP = "tvm_ios.devices"
#: Threads of a warp.
WARP = 32

_Limit = Annotated[int, range(2**31)]

_FILES = FigureFiles(
    "device",
    "device_data",
    {
        "peak_flops": "FLOP/s",
        "bandwidth": "byte/s",
        "processor_bandwidth": "byte/s",
        "processors": "",
        "efficiency": "of peak",
        "saturating_warps": "warps",
        "streaming_warps": "warps",
        "kernel_overhead": "s",
        "wait_overhead": "s",
    },
)


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """The limits of a GPU's streaming multiprocessor on the thread blocks that it holds at once."""

    #: The architecture that code is compiled for, such as ``"sm_90"``.
    arch: str
    #: Limits of all blocks on a multiprocessor together.
    threads: _Limit
    blocks: _Limit
    registers: _Limit
    shared_bytes: _Limit
    #: The most shared memory that one block can ask for.
    block_shared_bytes: _Limit
    #: Shared memory that each block takes beside what it asks for.
    reserved_shared_bytes: _Limit
    #: The source of the figures.
    source: str


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """The figures that bound the speed of operators on a device.

    Attributes
    ----------
    name, description
        For people.
    peak_flops
        Floating-point operations a second, all processors together.
    bandwidth, processor_bandwidth
        Bytes a second from main memory: all together, and the most that one processor gets.
    processors
        Streaming multiprocessors or cores.
    efficiency
        The part of the peak that a library's arithmetic reaches where nothing holds it up.
    saturating_warps, streaming_warps
        Warps that use all of a processor: by arithmetic, and by reading and writing.
    kernel_overhead
        Seconds until the blocks of a library's kernel run.
    wait_overhead
        Seconds from the end of a tile to the begin of one that waits for it in the same kernel.
    sources
        For each figure whether it is published, and where, or assumed.
    multiprocessor
        The limits of each multiprocessor, if the device is a GPU.
    """

    name: str
    description: str
    peak_flops: float
    bandwidth: float
    processor_bandwidth: float
    processors: int
    efficiency: float
    saturating_warps: float
    streaming_warps: float
    kernel_overhead: float
    wait_overhead: float
    sources: Mapping[str, str]
    multiprocessor: Multiprocessor | None = None

    def arithmetic_share(self, threads: float) -> float:
        """Return the part of a processor's arithmetic that a block of this many threads can use."""
        return min(1.0, math.ceil(threads / WARP) / self.saturating_warps)


def load_device(name: str) -> DeviceDescription:
    """Read a device that comes with the package, or a file of the same form.

    Parameters
    ----------
    name
        One of :func:`device_names`, or the path of a ``.json`` file.

    Raises
    ------
    DeviceError
        If there is no such device, or its file lacks a figure.
    ExtensionError
        If the package that adds it is broken.
    """
    if name in extensions(GROUP) and name not in _FILES.names():
        added = load_extension(GROUP, name, DeviceDescription, str, Path)
        return added if isinstance(added, DeviceDescription) else load_device(str(added))
    if not name.endswith(".json") and name not in _FILES.names():
        raise DeviceError(
            f"there is no device {name!r}: use {', '.join(device_names())}, or the path of a "
            f".json file{nearest(name, device_names())}"
        )
    file = _FILES.load(name)
    return DeviceDescription(
        file.name,
        file.description,
        **file.values,
        sources=file.sources,
        multiprocessor=_multiprocessor(name, file.data.get("multiprocessor")),
    )


def device_names() -> tuple[str, ...]:
    """Return the names of the devices of this package, and of those that other packages add."""
    return tuple(dict.fromkeys((*_FILES.names(), *extensions(GROUP))))


def device_text(name: str) -> str:
    """Return the text of the file of a device of this package."""
    return _FILES.text(name)


def largest_gpu(arch: str) -> DeviceDescription | None:
    """Return the described GPU of an architecture that has the most multiprocessors, or None.

    The architecture is such as ``"sm_90"``, or ``"sm_90a"`` with its own instructions.
    """
    matching = (device for device_arch, device in _gpus() if device_arch == arch.removesuffix("a"))
    return max(matching, key=lambda device: device.processors, default=None)


def described_gpu(arch: str) -> str:
    """Return the name of the largest described GPU of an architecture such as ``sm_90``.

    Raise DeviceError if none is described.
    """
    device = largest_gpu(arch)
    if device is None:
        raise DeviceError(f"no GPU of the architecture {arch!r} is described: give --cost a file")
    return device.name


def described_archs() -> tuple[str, ...]:
    """Return the architectures of the GPUs of this package, sorted."""
    return tuple(sorted({arch for arch, _ in _gpus()}))


def _gpus() -> list[tuple[str, DeviceDescription]]:
    devices = map(load_device, _FILES.names())
    return [(d.multiprocessor.arch, d) for d in devices if d.multiprocessor is not None]


def _multiprocessor(origin: str, data: Any) -> Multiprocessor | None:
    if data is None:
        return None
    try:
        return read_as(Multiprocessor, data)
    except JsonError as error:
        raise DeviceError(
            f"the device {origin} lacks or misstates {error} of its multiprocessor"
        ) from error
