"""How long the rTasks of CUDA kernels take: profiled, or estimated where nothing was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from runtime_ext.cuda.persistent.fused_kernel import vdevice
from tvm_ios.devices.device import DeviceDescription
from tvm_ios.devices.occupancy import Footprint
from tvm_ios.program.program import UnitCode
from tvm_ios.schedule.rkernel import RKernel

#: Seconds that a block takes at least to load, compute in a chain and store. Assumed.
_SHORTEST_TASK = 1e-6


def profiled_rkernel(
    name: str,
    code: UnitCode,
    phases: Sequence[float],
    blocks: Callable[[str], int],
    footprint: Callable[[str], Footprint],
    device: DeviceDescription,
    overhead: float,
) -> RKernel:
    """An rKernel from the times of its kernels.

    A kernel by itself runs in waves of as many blocks as the GPU holds, and an rTask takes as long
    as a wave. What a launch costs is left out, where the times contain it: rTasks in a persistent
    kernel are not launched.

    Parameters
    ----------
    name
        The name of the rKernel.
    code
        The code of a unit in one of its forms.
    phases
        Seconds of each of its kernels when it runs alone.
    blocks, footprint
        Give the blocks and the footprint of a kernel, by its symbol.
    device
        The GPU.
    overhead
        Seconds of each of the times that are no work of a kernel, as the device says that gave
        them.
    """
    symbols = [call.symbol for call in code.calls]
    tasks = tuple(map(blocks, symbols))
    resident = [vdevice([footprint(symbol)], device) for symbol in symbols]
    # Of noisy times no more is left out than leaves a kernel something to do.
    kernel_seconds = [max(min(s, _SHORTEST_TASK), s - overhead) for s in phases]
    task_seconds = tuple(
        seconds / -(-count // blocks_at_once)
        for seconds, count, blocks_at_once in zip(kernel_seconds, tasks, resident, strict=True)
    )
    return RKernel(name, tasks, task_seconds, sum(kernel_seconds))


def contended_rkernel(
    kernel: RKernel,
    code: UnitCode,
    footprint: Callable[[str], Footprint],
    device: DeviceDescription,
    veus: int,
) -> RKernel:
    """A profiled rKernel whose rTasks take as long as while all vEUs are busy.

    Profiled alone, the blocks of a small kernel have a multiprocessor each. As vEUs they share it
    with others, and are slower once all together would use more than its throughput: the rule of
    described devices (:mod:`tvm_ios.costs.contention`).

    Parameters
    ----------
    kernel, code, footprint, device
        As :func:`profiled_rkernel` gave and took them.
    veus
        On how many vEUs its rTasks are placed.
    """

    def slower(symbol: str, blocks: int) -> float:
        share = device.arithmetic_share(footprint(symbol).threads)
        resident = vdevice([footprint(symbol)], device) // device.processors
        alone = min(resident, math.ceil(blocks / device.processors))
        return max(1.0, share * veus / device.processors) / max(1.0, share * alone)

    calls = zip(code.calls, kernel.tasks, kernel.task_seconds, strict=True)
    seconds = tuple(each * slower(call.symbol, blocks) for call, blocks, each in calls)
    return replace(kernel, task_seconds=seconds)


def estimated_rkernel(
    name: str,
    code: UnitCode,
    blocks: Callable[[str], int],
    flops: int,
    device: DeviceDescription,
    veus: int,
) -> RKernel:
    """An rKernel whose times are estimated from the device's figures.

    A vEU has its share of the device's operations and bytes a second. A phase moves the bytes of
    its arguments, and the unit's operations are divided among its phases like these. The estimate
    knows nothing of caches, of kernels that reach less than the peak, or of vEUs that idle.

    Parameters
    ----------
    name, code, blocks
        As for :func:`profiled_rkernel`.
    flops
        Operations of the unit.
    device, veus
        The GPU, and how many vEUs share it.
    """
    buffers = (*code.parameters, *code.scratch)
    bytes_moved = [sum(buffers[a].nbytes for a in call.arguments) for call in code.calls]
    tasks = tuple(blocks(call.symbol) for call in code.calls)
    seconds = tuple(
        max(
            _SHORTEST_TASK,
            veus
            / count
            * max(flops * nbytes / sum(bytes_moved) / device.peak_flops, nbytes / device.bandwidth),
        )
        for count, nbytes in zip(tasks, bytes_moved, strict=True)
    )
    waves = (
        -(-count // veus) * task_seconds for count, task_seconds in zip(tasks, seconds, strict=True)
    )
    return RKernel(name, tasks, seconds, device.launch_overhead + sum(waves))
