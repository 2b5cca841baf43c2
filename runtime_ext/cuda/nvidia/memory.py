"""The buffers of a program on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from runtime_ext.cuda.nvidia.driver import OpenDevice, call
from runtime_ext.cuda.nvidia.resources import DeviceBytes, PinnedArray, shared_constant, stream
from tvm_ios.files.array_files import Array
from tvm_ios.program.memory_plan import MemoryPlan, check_plan
from tvm_ios.program.program import BufferType, Program, Role

#: Bytes to which buffers outside the arena are aligned; a plan's offsets are multiples of 64.
_ALIGNMENT = 256


class DeviceMemory:
    """The buffers of a program on a GPU: one arena, buffers outside it, and shared constants.

    ``constants`` has the content of each constant buffer, by name; None makes them buffers like
    others. ``plan`` places intermediate and scratch buffers in the arena; without it each has
    memory of its own. Raise CudaError if the device does not have enough memory, and ProgramError
    if the plan is of another program.
    """

    def __init__(
        self,
        device: OpenDevice,
        program: Program,
        constants: Mapping[str, Array] | None,
        plan: MemoryPlan | None = None,
    ) -> None:
        self.device = device
        if plan is not None:
            check_plan(program, plan)
        places = {} if plan is None else dict(plan.offsets)
        end = 0 if plan is None else plan.nbytes
        self._constants: dict[int, DeviceBytes] = {}
        for number, buffer in enumerate(program.buffers):
            if buffer.role is Role.CONSTANT and constants is not None:
                self._constants[number] = shared_constant(device, constants[buffer.name])
            elif buffer.part is None and number not in places:
                places[number] = -(-end // _ALIGNMENT) * _ALIGNMENT
                end = places[number] + buffer.type.nbytes
        self._bytes = DeviceBytes(device, end)
        wholes = {n: self._bytes.address + offset for n, offset in places.items()}
        wholes |= {n: constant.address for n, constant in self._constants.items()}
        #: For each buffer of the program its address; kernels of a part are given the whole.
        self.addresses = tuple(wholes[program.whole_of(n)] for n in range(len(program.buffers)))
        self._number = {buffer.name: n for n, buffer in enumerate(program.buffers)}
        self._types = tuple(buffer.type for buffer in program.buffers)
        self._stream = stream(device)
        self._staging: dict[BufferType, PinnedArray] = {}

    def write(self, name: str, value: Array) -> None:
        """Copy an array into a buffer and wait for the copy."""
        number, staging = self._staged(name)
        np.copyto(staging.array, value)
        size, queue = staging.array.nbytes, self._stream.handle
        call("cuMemcpyHtoDAsync", self.addresses[number], staging.address, size, queue)
        call("cuStreamSynchronize", queue)

    def read(self, name: str) -> Array:
        """Return a copy of a buffer's content."""
        number, staging = self._staged(name)
        size, queue = staging.array.nbytes, self._stream.handle
        call("cuMemcpyDtoHAsync", staging.address, self.addresses[number], size, queue)
        call("cuStreamSynchronize", queue)
        return staging.array.copy()

    def carry(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Copy the first buffer of each pair into the second one, on the device.

        The addresses cannot be swapped instead, because captured graphs hold them.
        """
        self.device.use()
        queue = self._stream.handle
        for one, other in pairs:
            source, target = self._number[one], self._number[other]
            size = self._types[source].nbytes
            call("cuMemcpyDtoDAsync", self.addresses[target], self.addresses[source], size, queue)
        call("cuStreamSynchronize", queue)

    def _staged(self, name: str) -> tuple[int, PinnedArray]:
        self.device.use()
        number = self._number[name]
        buffer_type = self._types[number]
        if buffer_type not in self._staging:
            self._staging[buffer_type] = PinnedArray(
                self.device, buffer_type.shape, buffer_type.dtype
            )
        return number, self._staging[buffer_type]
