"""The work of kernels that reduce images to means, and of those that go element by element."""

from __future__ import annotations

from math import ceil

from tvm_ios.costs.cuda_kernels.block_work import IN_FLIGHT, BlockWork, grid_cycles
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu
from tvm_ios.costs.cuda_kernels.tile import THREADS
from tvm_ios.devices.occupancy import Footprint

#: Channels that a block of a mean may have: from a transaction of memory to a part of one.
_CHANNELS = (32, 16, 8)
#: Of a mean: instructions to find a pixel and to read it; to begin, and to store a mean. Bytes of a
#: sector, the least that is read. Registers of a thread.
_READ, _ONCE, _SECTOR, _REGISTERS = 12, 60, 32.0, 40
#: Of a kernel that goes element by element: instructions to find its element, and registers.
_FIND, _FEW_REGISTERS = 30, 24


def mean_channels(batch: int, pixels: int, channels: int, gpu: TargetGpu) -> int:
    """Return the number of channels per block of a mean with the least estimated time.

    Fewer channels give more blocks, and more teams that share the pixels.
    """

    def cycles(each: int) -> float:
        return grid_cycles(mean_work(pixels, each), batch * ceil(channels / each), gpu)

    return min(_CHANNELS, key=cycles)


def mean_work(pixels: int, channels: int) -> BlockWork:
    """Return the work of a block of a mean with ``channels`` channels per block."""
    teams = THREADS // channels
    steps = ceil(pixels / teams)
    together = min(IN_FLIGHT, steps)
    return BlockWork(
        Footprint(THREADS, _REGISTERS, 4 * THREADS),
        steps=ceil(steps / together),
        beside=_READ * together,
        products=0.0,
        after=together,
        once=_ONCE + 2 * teams,
        nbytes=max(_SECTOR, 4.0 * channels) * teams * together,
        shared=0.0,
    )


def stream_work(width: int, operations: int) -> BlockWork:
    """Return the work of a block whose threads compute ``width`` neighbouring elements each."""
    footprint = Footprint(THREADS, _FEW_REGISTERS + 2 * width, 0)
    return moving_work(footprint, 4.0 * THREADS * width, float(width * (1 + operations)))


def moving_work(footprint: Footprint, nbytes: float, instructions: float) -> BlockWork:
    """Return the work of a block that reads all of its bytes at once; instructions are a warp's."""
    return BlockWork(
        footprint,
        steps=1,
        beside=0.0,
        products=0.0,
        after=instructions,
        once=_FIND,
        nbytes=nbytes,
        shared=0.0,
    )
