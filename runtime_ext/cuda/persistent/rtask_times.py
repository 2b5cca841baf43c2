"""Times of the rTasks of CUDA kernels that were profiled."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from runtime_ext.cuda.persistent.fused_kernel import vdevice
from tvm_ios.devices.device import DeviceDescription
from tvm_ios.devices.occupancy import Footprint
from tvm_ios.program.program import UnitCode
from tvm_ios.schedule.rkernel import RKernel

#: Assumed least seconds of a block, to load, compute in a chain and store.
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
    """Return an rKernel from the seconds of a unit's kernels, each measured alone.

    A kernel alone runs in waves of as many blocks as the GPU holds, and an rTask takes as long as a
    wave. ``overhead``, the seconds of launching that each measured time contains, is subtracted,
    because rTasks in a persistent kernel are not launched.
    """
    symbols = [call.symbol for call in code.calls]
    tasks = tuple(map(blocks, symbols))
    resident = [vdevice([footprint(symbol)], device) for symbol in symbols]
    # Noisy times may be below the overhead: keep a least time for each kernel.
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
    """Return a profiled rKernel with the times of its rTasks while all ``veus`` are busy.

    Profiled alone, each block of a small kernel has a multiprocessor of its own. As vEUs they share
    it with others, and are slower once all together exceed its throughput, by the rule of described
    devices (:mod:`tvm_ios.costs.contention`).
    """

    def slower(symbol: str, blocks: int) -> float:
        share = device.arithmetic_share(footprint(symbol).threads)
        resident = vdevice([footprint(symbol)], device) // device.processors
        alone = min(resident, math.ceil(blocks / device.processors))
        return max(1.0, share * veus / device.processors) / max(1.0, share * alone)

    calls = zip(code.calls, kernel.tasks, kernel.task_seconds, strict=True)
    seconds = tuple(each * slower(call.symbol, blocks) for call, blocks, each in calls)
    return replace(kernel, task_seconds=seconds)
