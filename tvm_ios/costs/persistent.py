"""Estimated kernels as rKernels, and their rTasks in one persistent kernel of a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tvm_ios.costs.contention import Launch
from tvm_ios.costs.kernel_estimate import KernelEstimate
from tvm_ios.devices.device import DeviceDescription
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.schedule.rkernel import RKernel

#: Blocks of a persistent kernel that share a multiprocessor. Assumed.
_VEUS_OF_MULTIPROCESSOR = 2


def veus(device: DeviceDescription) -> int:
    """Return the number of virtual execution units (vEUs) of a device that rTasks are placed on."""
    return device.processors * _veus_of_processor(device)


def rkernel(
    name: str,
    kernels: Sequence[KernelEstimate],
    device: DeviceDescription,
    lanes: int | None = None,
) -> RKernel:
    """Return the rKernel whose phases are the kernels of a unit and whose rTasks are their blocks.

    An rTask takes as long as it does when all vEUs of its processor are busy: a share of so many
    ``lanes`` of the device, by default the assumed ones.
    """
    shared = (lanes or veus(device)) / device.processors
    return RKernel(
        name,
        tuple(kernel.blocks for kernel in kernels),
        tuple(k.block_seconds * max(1.0, shared * k.share) for k in kernels),
        sum(kernel.seconds(device) for kernel in kernels),
    )


def persistent_launches(
    graph: OpGraph,
    waves: Iterable[Sequence[int]],
    kernels: Callable[[int], Sequence[KernelEstimate]],
    device: DeviceDescription,
    *,
    barriers: bool = False,
) -> list[Launch]:
    """Return the kernels of units in one persistent kernel, as launches without launch overhead.

    ``waves`` hold units in the order of Append; units in none of them were computed before. With
    ``barriers`` a wave begins when all of the wave before has ended; by default a unit's rTasks
    wait only for what they read.
    """
    launches: list[Launch] = []
    #: The launches that end a unit; of one without kernels those that end what it reads.
    last: dict[int, tuple[int, ...]] = {}
    wave_before: tuple[int, ...] = ()
    for wave in waves:
        for unit in wave:
            sources = bits(graph.predecessors[unit])
            read = {launch for source in sources for launch in last.get(source, ())}
            after = wave_before if barriers else tuple(sorted(read))
            for kernel in kernels(unit):
                wait = device.wait_overhead if after else 0.0
                launches.append(Launch(kernel, after, kernel.overhead + wait))
                after = (len(launches) - 1,)
            last[unit] = after
        wave_before = tuple(sorted({launch for unit in wave for launch in last[unit]}))
    return launches


def _veus_of_processor(device: DeviceDescription) -> int:
    return 1 if device.multiprocessor is None else _VEUS_OF_MULTIPROCESSOR
