"""The buffers of a program in this machine's memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tvm_ffi

from runtime_ext.execution.buffers import allocate, allocate_bytes, share_constant, view
from tvm_ios.files.array_files import Array
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Buffer, Program, Role


class HostMemory:
    """One arena, the buffers outside it, and constants that all sessions of a process share.

    Parameters
    ----------
    program
        The program that has the buffers.
    constants
        For each constant buffer, by name, its content.
    plan
        Where intermediate buffers and scratch lie in one arena; without it each has memory of
        its own.
    """

    def __init__(
        self, program: Program, constants: Mapping[str, Array], plan: MemoryPlan | None
    ) -> None:
        wholes: dict[int, Array] = {}
        if plan is not None:
            arena = allocate_bytes(plan.nbytes)
            wholes = {
                n: view(arena, program.buffers[n].type, offset)
                for n, offset in plan.offsets.items()
            }
        wholes |= {
            n: _outside(buffer, constants)
            for n, buffer in enumerate(program.buffers)
            if buffer.part is None and n not in wholes
        }
        # Kernels of a part are given the whole.
        arrays = [wholes[program.whole_of(n)] for n in range(len(program.buffers))]
        #: For each buffer of the program its memory, and what kernels are called with.
        self.arrays = arrays
        self.tensors = [tvm_ffi.from_dlpack(array) for array in arrays]
        self._arrays = {b.name: a for b, a in zip(program.buffers, arrays, strict=True)}

    def write(self, name: str, value: Array) -> None:
        """Copy an array into a buffer."""
        np.copyto(self._arrays[name], value)

    def read(self, name: str) -> Array:
        """A copy of what a buffer holds."""
        return self._arrays[name].copy()


def _outside(buffer: Buffer, constants: Mapping[str, Array]) -> Array:
    if buffer.role is Role.CONSTANT:
        return share_constant(np.asarray(constants[buffer.name]))
    return allocate(buffer.type)
