"""The kernels of a bundle as rTasks, for the co-scheduled stages of a search on a GPU."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path

from runtime_ext.cuda.machine_code.cubin_cache import CubinCache
from runtime_ext.cuda.machine_code.launchable import Launchable
from runtime_ext.cuda.machine_code.nvrtc import Cubin, compiler_version, has_compiler
from runtime_ext.cuda.nvidia.driver import OpenDevice
from runtime_ext.cuda.persistent.rtask_function import RTaskFunction
from runtime_ext.cuda.persistent.stage_fuser import GpuStageFuser
from tvm_ios.devices.device import DeviceDescription, device_text, load_device
from tvm_ios.devices.occupancy import Footprint
from tvm_ios.errors import UnfusedError
from tvm_ios.files.json_text import json_object, naturals
from tvm_ios.files.plain_data import read_as

FILE, GPU = "rtasks.json.gz", "gpu.json"


@dataclass(frozen=True)
class BundledRTasks:
    """A bundle's kernels as rTasks, and the stages compiled ahead."""

    #: The GPU that the kernels are divided for.
    device: DeviceDescription
    #: For each symbol the footprint of one block of the kernel by itself, and its rTasks.
    kernels: Mapping[str, tuple[Footprint, RTaskFunction]]
    #: For each stage kernel, by its entry, registers and bytes of local memory of a thread, and the
    #: static shared bytes of a block.
    fused: Mapping[str, tuple[int, ...]]
    #: The units of the stages of these kernels.
    stages: Sequence[tuple[int, ...]]

    def save(self, folder: Path) -> None:
        """Write the rTasks and the device description into a folder."""
        data = {
            "kernels": {
                symbol: [astuple(footprint), asdict(function)]
                for symbol, (footprint, function) in self.kernels.items()
            },
            "fused": self.fused,
            "stages": self.stages,
        }
        (folder / FILE).write_bytes(gzip.compress(json.dumps(data).encode(), mtime=0))
        (folder / GPU).write_text(device_text(self.device.name))


def read_rtasks(folder: Path) -> BundledRTasks:
    """Read a bundle's rTask files; raise OSError, ValueError and the like if they are damaged."""
    data = json_object(gzip.decompress((folder / FILE).read_bytes()))
    return BundledRTasks(
        device=load_device(str(folder / GPU)),
        kernels={
            symbol: read_as(tuple[Footprint, RTaskFunction], kernel)
            for symbol, kernel in data["kernels"].items()
        },
        fused={str(entry): naturals(figures) for entry, figures in data["fused"].items()},
        stages=[naturals(units) for units in data["stages"]],
    )


def bundle_fuser(
    rtasks: BundledRTasks, kernels: dict[str, Launchable], opened: OpenDevice, cache: Path
) -> GpuStageFuser:
    """Return the fuser of stages here; without NVRTC and nvcc it knows only stages compiled ahead.

    ``kernels`` are those of the bundle; new ones are added. ``cache`` is a folder for compiled
    kernels.
    """
    count = opened.attribute("MULTIPROCESSOR_COUNT")
    device = replace(rtasks.device, processors=count)
    only = None if has_compiler() else rtasks.stages
    return GpuStageFuser(_Library(rtasks, kernels, CubinCache(cache)), device, only)


def compiler_here(rtasks: BundledRTasks) -> str:
    """Describe the compiler of co-scheduled stages on this machine, as text for people."""
    if has_compiler():
        return compiler_version()
    return f"none: {len(rtasks.fused)} stages were compiled ahead, and only these are tried"


class _Library:
    """The bundle's rTasks as a :class:`runtime_ext.cuda.persistent.rtask_library.RTaskLibrary`."""

    def __init__(
        self, rtasks: BundledRTasks, kernels: dict[str, Launchable], cache: CubinCache
    ) -> None:
        self._rtasks = rtasks
        self._kernels = kernels
        self._cache = cache

    def blocks(self, symbol: str) -> int:
        return self.rtasks(symbol).tasks

    def footprint(self, symbol: str) -> Footprint:
        return self._kernel(symbol)[0]

    def rtasks(self, symbol: str) -> RTaskFunction:
        return self._kernel(symbol)[1]

    def cubin(self, source: str, arch: str, entry: str) -> Cubin:
        if entry in self._rtasks.fused:
            return Cubin(self._kernels[entry].cubin, *self._rtasks.fused[entry])
        if has_compiler():
            return self._cache.cubin(source, arch, entry)
        raise UnfusedError(
            "its kernel is not among those that the bundle has, and there is no CUDA compiler "
            "here: install nvidia-cuda-nvrtc"
        )

    def add(self, symbol: str, kernel: Launchable) -> None:
        self._kernels[symbol] = kernel

    def _kernel(self, symbol: str) -> tuple[Footprint, RTaskFunction]:
        if symbol not in self._rtasks.kernels:
            raise UnfusedError(f"kernel {symbol!r} of the bundle cannot be rTasks")
        return self._rtasks.kernels[symbol]
