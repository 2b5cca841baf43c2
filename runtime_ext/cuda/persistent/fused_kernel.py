"""Compile a co-scheduled stage to one kernel (Rammer, section 4.1). Needs no TVM."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from runtime_ext.cuda.machine_code.kernel import CudaKernel
from runtime_ext.cuda.machine_code.launchable import Launchable
from runtime_ext.cuda.machine_code.nvrtc import Cubin
from runtime_ext.cuda.persistent.fused_source import persistent_source, side_by_side_source
from runtime_ext.cuda.persistent.rtask_function import RTaskFunction
from tvm_ios.devices.device import DeviceDescription
from tvm_ios.devices.occupancy import (
    Footprint,
    multiprocessor_of,
    require_resident,
    resident_blocks,
)
from tvm_ios.files.array_files import Array
from tvm_ios.program.persistent import PersistentProgram
from tvm_ios.program.program import BufferType
from tvm_ios.program.step_table import StepTable, tabulate

#: Compiles a source for an architecture; the entry's name contains a hash of the source.
Compile = Callable[[str, str, str], Cubin]


@dataclass(frozen=True)
class FusedKernel:
    """One kernel that runs a persistent program."""

    kernel: CudaKernel
    cubin: bytes
    #: The program's buffers that are its parameters, in order.
    buffers: tuple[int, ...]
    #: The steps of its vEUs; None if no operator waits for another, when each rTask is a block.
    #: With it the kernel has two more parameters: the table, and for each vEU a counter of its
    #: finished steps, which has to be zero when the kernel begins.
    table: StepTable | None

    @property
    def launchable(self) -> Launchable:
        """The kernel with the step counters to clear before each launch.

        Between launches other buffers may use their memory.
        """
        cleared = () if self.table is None else (len(self.buffers) + 1,)
        return self.kernel.launchable(self.cubin, cleared)

    @property
    def words(self) -> Array | None:
        """The table as an array of integers, the form of the kernel's argument."""
        return None if self.table is None else np.array(self.table.words, np.int32)


def vdevice(footprints: Iterable[Footprint], device: DeviceDescription) -> int:
    """Return the number of a GPU's vEUs: resident blocks of the most demanding kernel."""
    multiprocessor = multiprocessor_of(device)
    of_each = tuple(footprints)
    largest = Footprint(
        max(need.threads for need in of_each),
        max(need.registers for need in of_each),
        max(need.shared_bytes for need in of_each),
    )
    # A block with the most threads and registers of all kernels may not fit: then use fewer.
    while not (blocks := resident_blocks(largest, multiprocessor)) and largest.registers > 32:
        largest = replace(largest, registers=largest.registers - 8)
    return device.processors * max(1, blocks)


def fuse(
    program: PersistentProgram,
    functions: Mapping[str, RTaskFunction],
    device: DeviceDescription,
    compile: Compile,
    blocks_each: int,
) -> FusedKernel:
    """Compile a persistent program to a kernel.

    ``program`` is from :func:`tvm_ios.program.persistent_lowering.lower_persistent`, on at most as
    many lanes as the device holds vEUs; ``functions`` are the rTasks of its kernels.
    ``blocks_each`` is the number of blocks that a multiprocessor has to hold, which limits the
    registers. Raise OccupancyError if not all vEUs can run at once, and UserError if the compiler
    rejects the source.
    """
    arch = multiprocessor_of(device).arch
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
        blocks, each = lanes, max(blocks_each, -(-lanes // device.processors))
        source = persistent_source(program, functions, buffers, "{entry}", each)
        written.add(len(parameters) + 1)
        parameters += [BufferType((len(table.words),), "int32"), BufferType((lanes,), "int32")]
    digest = hashlib.sha256(f"{arch} {source}".encode()).hexdigest()[:16]
    entry = f"rprogram_{digest}"
    source = source.replace("{entry}", entry)
    cubin = compile(source, arch, entry)
    functions_in_order = [functions[symbol] for symbol in program.kernels]
    kernel = CudaKernel(
        # The same code may be launched with more or fewer blocks.
        symbol=f"{entry}_{blocks}",
        entry=entry,
        parameters=tuple(parameters),
        written=tuple(sorted(written)),
        grid=(blocks, 1, 1),
        block=(max(function.threads for function in functions_in_order), 1, 1),
        static_shared_bytes=cubin.static_shared_bytes,
        dynamic_shared_bytes=max(function.shared_bytes for function in functions_in_order),
        registers=cubin.registers,
        local_bytes=cubin.local_bytes,
        source=source,
    )
    if table is not None:
        require_resident(entry, blocks, kernel.footprint, device)
    return FusedKernel(kernel, cubin.code, buffers, table)
