"""The GPU that kernels for an architecture are cut for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from runtime_ext.cuda.machine_code.kernel import CudaKernel
from tvm_ios.devices.device import Multiprocessor, described_archs, largest_gpu
from tvm_ios.devices.occupancy import resident_blocks
from tvm_ios.errors import UserError


@dataclass(frozen=True, slots=True)
class TargetGpu:
    """An architecture, the multiprocessors of its GPU, and what one of them holds."""

    arch: str
    processors: int
    multiprocessor: Multiprocessor

    def blocks_per_processor(self, kernel: CudaKernel) -> int:
        """How many blocks of a kernel run side by side on one processor; 0 if none can."""
        return resident_blocks(kernel.footprint, self.multiprocessor)

    def waves(self, kernel: CudaKernel) -> float:
        """Blocks of a kernel's grid over what the GPU runs at once."""
        return kernel.blocks / max(1, self.processors * self.blocks_per_processor(kernel))


@lru_cache
def gpu_of(arch: str) -> TargetGpu:
    """The GPU of the device files that has an architecture, the largest if there are several.

    Raises
    ------
    UserError
        If none has.
    """
    device = largest_gpu(arch)
    if device is None or device.multiprocessor is None:
        archs = ", ".join(described_archs())
        raise UserError(f"no device file has the architecture {arch!r}, only {archs}: add one")
    return TargetGpu(device.multiprocessor.arch, device.processors, device.multiprocessor)
