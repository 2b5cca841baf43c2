"""The GPU of an architecture for which kernels' tile sizes are chosen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tvm_ios.devices.device import DeviceDescription, Multiprocessor, described_archs, largest_gpu
from tvm_ios.devices.engine import GRAPH, load_engine
from tvm_ios.devices.occupancy import Footprint, multiprocessor_of, resident_blocks
from tvm_ios.errors import UserError

#: Architectures whose multiprocessors do 64 float32 multiply-adds per cycle; others do 128 (CUDA
#: C++ Programming Guide, throughput of native arithmetic instructions).
_NARROW = ("sm_70", "sm_72", "sm_75", "sm_80")


@dataclass(frozen=True, slots=True)
class TargetGpu:
    """An architecture, and the resources of its GPU that limit kernels."""

    #: The architecture to compile for.
    arch: str
    #: The number of multiprocessors, and the resources of each.
    processors: int
    multiprocessor: Multiprocessor
    #: Multiply-adds of float32 that a multiprocessor does per cycle.
    multiply_adds: int
    #: Cycles per second.
    clock: float
    #: Bytes per cycle from main memory.
    memory_bytes: float
    #: Cycles from the end of a kernel to the begin of one that waits for it.
    edge_cycles: float

    def blocks_per_processor(self, footprint: Footprint) -> int:
        """Return how many blocks of a kernel fit on a multiprocessor at once; 0 if none does."""
        return resident_blocks(footprint, self.multiprocessor)


@lru_cache
def gpu_of(arch: str) -> TargetGpu:
    """Return the largest described GPU of an architecture; raise UserError if none."""
    device = largest_gpu(arch)
    if device is None:
        archs = ", ".join(described_archs())
        raise UserError(f"no device file has the architecture {arch!r}, only {archs}: add one")
    return target_gpu(device)


def target_gpu(device: DeviceDescription, edge: float | None = None) -> TargetGpu:
    """Convert the description of a GPU; raise OccupancyError for another device.

    ``edge`` is the seconds from the end of a kernel to the begin of one that waits for it, by
    default those of a captured graph.
    """
    own = multiprocessor_of(device)
    multiply_adds = 64 if own.arch in _NARROW else 128
    clock = device.peak_flops / (2 * multiply_adds * device.processors)
    return TargetGpu(
        own.arch,
        device.processors,
        own,
        multiply_adds,
        clock,
        device.bandwidth / clock,
        (load_engine(GRAPH).launch_overhead if edge is None else edge) * clock,
    )
