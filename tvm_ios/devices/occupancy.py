"""The number of thread blocks of a kernel that a GPU holds at once, and so of its vEUs."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.devices.device import WARP, DeviceDescription, Multiprocessor
from tvm_ios.errors import UserError

#: Registers are given to warps in pieces of so many, and shared memory to blocks in such bytes.
_REGISTER_UNIT = 256
_SHARED_UNIT = 256
#: A multiprocessor's four schedulers have registers of their own.
_SCHEDULERS = 4


class OccupancyError(UserError):
    """A device cannot hold a kernel's blocks: one sentence."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The resources of a thread block: threads, registers a thread, bytes of shared memory."""

    threads: int
    registers: int
    shared_bytes: int


def resident_blocks(footprint: Footprint, multiprocessor: Multiprocessor) -> int:
    """Return the blocks that a multiprocessor holds at once.

    See the CUDA C++ Programming Guide on occupancy.
    """
    if footprint.shared_bytes > multiprocessor.block_shared_bytes:
        return 0
    warps = -(-footprint.threads // WARP)
    warp_registers = _rounded(footprint.registers * WARP, _REGISTER_UNIT)
    warps_by_registers = (
        multiprocessor.registers // _SCHEDULERS // warp_registers * _SCHEDULERS
        if warp_registers
        else multiprocessor.threads // WARP
    )
    shared = _rounded(footprint.shared_bytes + multiprocessor.reserved_shared_bytes, _SHARED_UNIT)
    return min(
        multiprocessor.blocks,
        multiprocessor.threads // WARP // warps,
        warps_by_registers // warps,
        multiprocessor.shared_bytes // shared if shared else multiprocessor.blocks,
    )


def require_resident(
    name: str, blocks: int, footprint: Footprint, device: DeviceDescription
) -> None:
    """Require that all blocks of a persistent kernel run at once, because others would never begin.

    ``name`` is for the error; nothing else may occupy the device for good. Raise OccupancyError if
    the device holds fewer blocks, or its limits are unknown.
    """
    resident = device.processors * resident_blocks(footprint, multiprocessor_of(device))
    if blocks > resident:
        raise OccupancyError(
            f"the persistent kernel {name!r} has {blocks} blocks of {footprint.threads} threads, "
            f"{footprint.registers} registers and {footprint.shared_bytes} shared bytes, but "
            f"{device.name} holds {resident} at once: schedule for at most {resident} vEUs"
        )


def multiprocessor_of(device: DeviceDescription) -> Multiprocessor:
    """Return the limits of a GPU's multiprocessor; raise OccupancyError if the device is no GPU."""
    if device.multiprocessor is None:
        raise OccupancyError(
            f"the device {device.name!r} has no 'multiprocessor' in its file: name a GPU's"
        )
    return device.multiprocessor


def _rounded(value: int, unit: int) -> int:
    return -(-value // unit) * unit
