"""How long the rTasks of CUDA kernels take: profiled, or estimated where nothing was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime_ext.cuda.persistent.fused_kernel import vdevice
from tvm_ios.devices.device import DeviceDescription
from tvm_ios.devices.occupancy import Footprint
from tvm_ios.program.program import UnitCode
from tvm_ios.schedule.rkernel import RKernel

#: Assumed: what a block takes at least, to load, to compute in a chain and to store.
_SHORTEST_TASK = 1e-6


def profiled_rkernel(
    name: str,
    code: UnitCode,
    phases: Sequence[float],
    blocks: Callable[[str], int],
    footprint: Callable[[str], Footprint],
    device: DeviceDescription,
) -> RKernel:
    """An rKernel from the times of its kernels.

    A kernel by itself runs in waves of as many blocks as the GPU holds, and an rTask takes as long
    as a wave. What a launch costs is left out, for rTasks in a persistent kernel are not launched.

    Parameters
    ----------
    name
        Of the rKernel.
    code
        Of a unit in one of its forms.
    phases
        Seconds of each kernel of it, alone.
    blocks, footprint
        Of a kernel, by its symbol.
    device
        The GPU; its launch overhead is what is left out.
    """
    symbols = [call.symbol for call in code.calls]
    tasks = tuple(map(blocks, symbols))
    held = [vdevice([footprint(symbol)], device) for symbol in symbols]
    inside = [max(_SHORTEST_TASK, seconds - device.launch_overhead) for seconds in phases]
    each = tuple(
        seconds / -(-count // room)
        for seconds, count, room in zip(inside, tasks, held, strict=True)
    )
    return RKernel(name, tasks, each, sum(inside))


def estimated_rkernel(
    name: str,
    code: UnitCode,
    blocks: Callable[[str], int],
    flops: int,
    device: DeviceDescription,
    veus: int,
) -> RKernel:
    """An rKernel whose rTasks take what the device's figures say.

    A vEU has its share of the device's operations and bytes a second. A phase moves the bytes of
    its arguments, and the unit's operations are divided among its phases like these. The estimate
    knows nothing of caches, of kernels that reach less than the peak, or of vEUs that idle.

    Parameters
    ----------
    name, code, blocks
        As for :func:`profiled_rkernel`.
    flops
        Of the unit.
    device, veus
        The GPU, and how many vEUs share it.
    """
    buffers = (*code.parameters, *code.scratch)
    moved = [sum(buffers[a].nbytes for a in call.arguments) for call in code.calls]
    tasks = tuple(blocks(call.symbol) for call in code.calls)
    seconds = tuple(
        max(
            _SHORTEST_TASK,
            veus
            / count
            * max(flops * nbytes / sum(moved) / device.peak_flops, nbytes / device.bandwidth),
        )
        for count, nbytes in zip(tasks, moved, strict=True)
    )
    waves = (-(-count // veus) * each for count, each in zip(tasks, seconds, strict=True))
    return RKernel(name, tasks, seconds, device.launch_overhead + sum(waves))
