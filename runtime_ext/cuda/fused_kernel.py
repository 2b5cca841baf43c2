"""Compile a co-scheduled stage to one kernel (Rammer, section 4.1)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from runtime_ext.cuda.fused_source import persistent_source, side_by_side_source
from runtime_ext.cuda.kernel import CudaKernel
from runtime_ext.cuda.launchable import Launchable
from runtime_ext.cuda.nvrtc import compile_cubin
from runtime_ext.cuda.rtask import RTaskFunction, rtask_function
from tvm_ios.devices import Device
from tvm_ios.occupancy import (
    Footprint,
    multiprocessor_of,
    require_resident,
    resident_blocks,
)
from tvm_ios.persistent import PersistentProgram
from tvm_ios.program import BufferType
from tvm_ios.step_table import StepTable, tabulate


@dataclass(frozen=True)
class FusedKernel:
    """One kernel that runs a persistent program.

    Attributes
    ----------
    kernel
        What is known of it.
    cubin
        Its machine code.
    buffers
        Which of the program's buffers its parameters are, in order.
    table
        What its vEUs go through; None if no operator waits for another, when each rTask is a
        block. With it the kernel has one more parameter: for each vEU the steps that it has
        made, which have to be zero when it begins.
    """

    kernel: CudaKernel
    cubin: bytes
    buffers: tuple[int, ...]
    table: StepTable | None

    @property
    def launchable(self) -> Launchable:
        """What launching it takes. The counts of steps are cleared by a node of their own before,
        for the bytes in which they lie may be others' in between."""
        kernel = self.kernel
        return Launchable(
            entry=kernel.entry,
            grid=kernel.grid,
            block=kernel.block,
            shared_bytes=kernel.dynamic_shared_bytes,
            cubin=self.cubin,
            cleared=() if self.table is None else (len(self.buffers),),
        )


def vdevice(kernels: Mapping[str, CudaKernel], device: Device) -> int:
    """How many vEUs a GPU is for some kernels: blocks of the most demanding one (section 4.1.2).

    Parameters
    ----------
    kernels
        By symbol; the registers and bytes of each by itself.
    device
        Which GPU.
    """
    return device.processors * _blocks_each(kernels, device)


def fuse(
    program: PersistentProgram, kernels: Mapping[str, CudaKernel], device: Device
) -> FusedKernel:
    """Compile a persistent program to a kernel.

    Parameters
    ----------
    program
        From :func:`tvm_ios.persistent_lowering.lower_persistent`, on at most as many lanes as the
        device holds vEUs.
    kernels
        By symbol; each has its TIR.
    device
        A GPU.

    Raises
    ------
    OccupancyError
        If not all vEUs can run at once.
    UserError
        If the compiler refuses.
    ValueError
        If a kernel cannot be made rTasks of.
    """
    arch = multiprocessor_of(device).arch
    functions = {
        symbol: rtask_function(kernels[symbol].scheduled, f"rtask_{number}", arch)
        for number, symbol in enumerate(program.kernels)
    }
    used = {b for operator in program.operators for b in operator.buffers}
    buffers = tuple(sorted(used))
    place = {buffer: number for number, buffer in enumerate(buffers)}
    written = {
        place[operator.buffers[argument]]
        for operator in program.operators
        for argument in program.uses[operator.kernel].writes
    }
    parameters = [program.buffers[buffer].type for buffer in buffers]
    lanes = len(program.lanes)
    if program.independent:
        table = None
        source = side_by_side_source(program, functions, buffers, "{entry}")
        blocks = sum(functions[program.kernels[o.kernel]].tasks for o in program.operators)
    else:
        table = tabulate(program)
        blocks, each = lanes, -(-lanes // device.processors)
        source = persistent_source(program, table, functions, buffers, "{entry}", each)
        written.add(len(parameters))
        parameters.append(BufferType((lanes,), "int32"))
    digest = hashlib.sha256(f"{arch} {source}".encode()).hexdigest()[:16]
    entry = f"rprogram_{digest}"
    source = source.replace("{entry}", entry)
    cubin = compile_cubin(source, arch)
    kernel = CudaKernel(
        symbol=entry,
        entry=entry,
        parameters=tuple(parameters),
        written=tuple(sorted(written)),
        grid=(blocks, 1, 1),
        block=(_threads(functions), 1, 1),
        static_shared_bytes=cubin.static_shared_bytes,
        dynamic_shared_bytes=max(f.shared_bytes for f in functions.values()),
        registers=cubin.registers,
        local_bytes=cubin.local_bytes,
        source=source,
    )
    if table is not None:
        require_resident(entry, blocks, footprint(kernel), device)
    return FusedKernel(kernel, cubin.code, buffers, table)


def footprint(kernel: CudaKernel) -> Footprint:
    """What a block of a kernel takes."""
    return Footprint(kernel.threads, kernel.registers, kernel.shared_bytes)


def _threads(functions: Mapping[str, RTaskFunction]) -> int:
    return max(function.threads for function in functions.values())


def _blocks_each(kernels: Mapping[str, CudaKernel], device: Device) -> int:
    of = multiprocessor_of(device)
    needs = [footprint(kernel) for kernel in kernels.values()]
    most = Footprint(
        max(need.threads for need in needs),
        max(need.registers for need in needs),
        max(need.shared_bytes for need in needs),
    )
    # What a kernel of its own may have, all of its threads may not: fewer registers then.
    while not (blocks := resident_blocks(most, of)) and most.registers > 32:
        most = replace(most, registers=most.registers - 8)
    return max(1, blocks)
