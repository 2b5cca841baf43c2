"""Overwrite memory whose content a run does not need, so that wrong reads show in the outputs.

This finds buffers whose memory is reused too early, and kernels that read memory that nothing has
written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.program.memory_plan import planned_buffers
from tvm_ios.program.program import Launch, Program


class Poison:
    """Overwrites intermediate buffers and scratch before their first use and after their last.

    All bits are set: NaN in floating-point types, -1 or the largest number in integers. The program
    runs one launch after another; ``memory`` has the array of each of its buffers.
    """

    def __init__(self, program: Program, memory: Sequence[Array]) -> None:
        self._bytes = {b: memory[b].reshape(-1).view(np.uint8) for b in planned_buffers(program)}
        #: For each launch the planned buffers that it uses; for a part the whole buffer.
        self._used: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._all_uses: dict[int, int] = dict.fromkeys(self._bytes, 0)
        for launch in (item for lane in program.lanes for item in lane):
            if isinstance(launch, Launch):
                buffers = set(map(program.whole_of, launch.buffers))
                self._used[launch.buffers] = tuple(b for b in buffers if b in self._bytes)
                for buffer in self._used[launch.buffers]:
                    self._all_uses[buffer] += 1
        self._to_come: dict[int, int] = {}

    def begin(self) -> None:
        """Overwrite all buffers at the begin of a run."""
        self._to_come = dict(self._all_uses)
        for buffer in self._bytes:
            self._spoil(buffer)

    def before(self, launch: Launch) -> None:
        """Overwrite the buffers that this launch is the first to use."""
        for buffer in self._used[launch.buffers]:
            if self._to_come[buffer] == self._all_uses[buffer]:
                self._spoil(buffer)

    def after(self, launch: Launch) -> None:
        """Overwrite the buffers that this launch was the last to use."""
        for buffer in self._used[launch.buffers]:
            self._to_come[buffer] -= 1
            if self._to_come[buffer] == 0:
                self._spoil(buffer)

    def _spoil(self, buffer: int) -> None:
        self._bytes[buffer].fill(0xFF)
