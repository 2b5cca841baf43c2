"""The buffers of a program in this machine's memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm_ffi

from runtime_ext.execution.buffers import allocate, allocate_bytes, share_constant, slack, view
from runtime_ext.native_library import load_native_library
from tvm_ios.files.array_files import Array
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Program, Role


class HostMemory:
    """The buffers of a program in this machine's memory; sessions of a process share constants.

    With a plan, intermediate buffers and scratch lie in one arena; without, each has its own
    memory.
    """

    def __init__(
        self, program: Program, constants: Mapping[str, Array], plan: MemoryPlan | None
    ) -> None:
        wholes: dict[int, Array] = {}
        blocks: list[Array] = []
        if plan is not None:
            arena = allocate_bytes(plan.nbytes)
            wholes = {
                n: view(arena, program.buffers[n].type, offset)
                for n, offset in plan.offsets.items()
            }
            blocks.append(arena)
        for n, buffer in enumerate(program.buffers):
            if buffer.part is not None or n in wholes:
                continue
            if buffer.role is Role.CONSTANT:
                wholes[n] = share_constant(np.asarray(constants[buffer.name]))
            else:
                wholes[n] = allocate(buffer.type)
                blocks.append(wholes[n])
        self._blocks = blocks
        # Kernels that use a part get the whole buffer.
        arrays = [wholes[program.whole_of(n)] for n in range(len(program.buffers))]
        #: For each buffer of the program its array, and the tensor that kernels are called with.
        self.arrays = arrays
        self.tensors = [tvm_ffi.from_dlpack(array) for array in arrays]
        self._arrays = {b.name: a for b, a in zip(program.buffers, arrays, strict=True)}
        self._program = program
        self._exchanges: dict[Sequence[tuple[str, str]], Callable[[], None]] = {}

    def poison(self) -> None:
        """Set all bits of outputs, and of what lies behind the arena and buffers outside of it."""
        for buffer, array in zip(self._program.buffers, self.arrays, strict=True):
            if buffer.role is Role.OUTPUT and buffer.part is None:
                array.reshape(-1).view(np.uint8).fill(0xFF)
        for block in self._blocks:
            slack(block).fill(0xFF)

    def write(self, name: str, value: Array) -> None:
        """Copy an array into a buffer."""
        np.copyto(self._arrays[name], value)

    def read(self, name: str) -> Array:
        """Return a copy of a buffer's content."""
        return self._arrays[name].copy()

    def carry(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Exchange the memory of the buffers of each pair, which are whole and outside the arena.

        ``pairs`` is a tuple: the exchange that is prepared for it is kept for later calls.
        """
        exchange = self._exchanges.get(pairs)
        if exchange is None:
            tensors = [[self._tensors_of(one), self._tensors_of(other)] for one, other in pairs]
            exchange = load_native_library()["make_exchange"](tensors)
            self._exchanges[pairs] = exchange
        exchange()
        arrays = self._arrays
        for one, other in pairs:
            arrays[one], arrays[other] = arrays[other], arrays[one]

    def placement(self, names: Sequence[str]) -> Callable[..., None]:
        """Return a function of addresses, at which these buffers lie from its call on.

        They are whole and outside the arena. :meth:`write` and :meth:`read` do not follow them.
        """
        return load_native_library()["make_placement"]([self._tensors_of(name) for name in names])

    def _tensors_of(self, name: str) -> list[Any]:
        """Return the tensors that kernels are called with for a buffer and its parts."""
        buffers = self._program.buffers
        (whole,) = (n for n, buffer in enumerate(buffers) if buffer.name == name)
        return [t for n, t in enumerate(self.tensors) if self._program.whole_of(n) == whole]
