"""Which GPU kernels for an architecture are cut for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from runtime_ext.cuda.kernel import CudaKernel
from tvm_ios.devices import Multiprocessor, device_names, load_device
from tvm_ios.errors import UserError
from tvm_ios.occupancy import Footprint, resident_blocks


@dataclass(frozen=True, slots=True)
class Gpu:
    """An architecture, the multiprocessors of its GPU, and what one of them holds."""

    arch: str
    processors: int
    multiprocessor: Multiprocessor

    def blocks_per_processor(self, kernel: CudaKernel) -> int:
        """How many blocks of a kernel run side by side on one processor; 0 if none can."""
        footprint = Footprint(kernel.threads, kernel.registers, kernel.shared_bytes)
        return resident_blocks(footprint, self.multiprocessor)

    def waves(self, kernel: CudaKernel) -> float:
        """Blocks of a kernel's grid over what the GPU runs at once."""
        return kernel.blocks / max(1, self.processors * self.blocks_per_processor(kernel))


@lru_cache
def gpu_of(arch: str) -> Gpu:
    """The GPU of the device files that has an architecture, the largest if there are several.

    Raises
    ------
    UserError
        If none has.
    """
    devices = (load_device(name) for name in device_names())
    gpus = [
        Gpu(device.multiprocessor.arch, device.processors, device.multiprocessor)
        for device in devices
        if device.multiprocessor is not None
    ]
    found = [gpu for gpu in gpus if gpu.arch == arch.removesuffix("a")]
    if not found:
        known = ", ".join(sorted({gpu.arch for gpu in gpus}))
        raise UserError(f"no device file has the architecture {arch!r}, only {known}: add one")
    return max(found, key=lambda gpu: gpu.processors)
