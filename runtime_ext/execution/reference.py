"""The reference executor: a small interleaving machine that defines the meaning of a program.

It runs on one thread. Whenever several lanes could go on, a seeded random choice says which one
does, so that different seeds try different legal orders. A program is right if every order gives
the same result; a faster executor is right if it gives that result too.

It can overwrite memory that a run does not need, so that a wrong memory plan shows in its result.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from runtime_ext.execution.executor import Exclusive, Span, require_one_shape
from runtime_ext.native_errors import KernelError
from tvm_ios.files.array_files import Array
from tvm_ios.program.memory_plan import planned_buffers
from tvm_ios.program.program import Launch, Program, Wait


class ReferenceExecutor:
    """Runs a program's lanes in a random legal order on the calling thread.

    Parameters
    ----------
    program
        The program to run.
    functions
        For each of the program's symbols a function of its buffers, its scalars, ``begin`` and
        ``end``. KeyError is raised if one is missing.
    buffers
        A tensor for each buffer of the program.
    seed
        Seed of the choices. Each run goes on choosing, so two runs differ.
    poison
        The memory of each buffer: intermediate ones and scratch are overwritten before a run's
        first use of them and after its last. None: nothing is overwritten.
    """

    def __init__(
        self,
        program: Program,
        functions: Mapping[str, Callable[..., Any]],
        buffers: Sequence[Any],
        *,
        seed: int = 0,
        poison: Sequence[Array] | None = None,
    ) -> None:
        require_one_shape(program)
        self._program = program
        self._functions = [functions[symbol] for symbol in program.kernels]
        self._buffers = list(buffers)
        self._poison = None if poison is None else Poison(program, poison)
        self._random = random.Random(seed)
        self._exclusive = Exclusive()

    def run(self) -> None:
        """Run the program once."""
        self._interleave()

    def benchmark(self, number: int, repeat: int) -> list[float]:
        """Return seconds a run: ``repeat`` samples, each the mean of ``number`` runs."""
        samples: list[float] = []
        for _ in range(repeat):
            start = time.perf_counter()
            for _ in range(number):
                self._interleave()
            samples.append((time.perf_counter() - start) / number)
        return samples

    def profile(self) -> tuple[Span, ...]:
        """Run once, and return the times of every launch, lane by lane."""
        return tuple(sorted(self._interleave(), key=lambda span: (span.lane, span.launch)))

    def close(self) -> None:
        """Refuse later runs; there are no threads to end."""
        self._exclusive.close()

    def _interleave(self) -> list[Span]:
        with self._exclusive:
            return self._run_lanes()

    def _run_lanes(self) -> list[Span]:
        lanes = self._program.lanes
        position = [0] * len(lanes)
        launched = [0] * len(lanes)
        spans: list[Span] = []
        if self._poison is not None:
            self._poison.begin()
        origin = time.perf_counter()
        while ready := [n for n in range(len(lanes)) if self._ready(n, position[n], launched)]:
            # A burst lets one lane run far ahead of the others, where missing waits show.
            number = self._random.choice(ready)
            for _ in range(self._random.choice((1, 1, 2, 4, 1000))):
                item = lanes[number][position[number]]
                if isinstance(item, Launch):
                    begin = time.perf_counter() - origin
                    self._launch(number, item)
                    spans.append(
                        Span(number, launched[number], begin, time.perf_counter() - origin)
                    )
                    launched[number] += 1
                position[number] += 1
                if not self._ready(number, position[number], launched):
                    break
        return spans

    def _ready(self, number: int, position: int, launched: list[int]) -> bool:
        lane = self._program.lanes[number]
        if position == len(lane):
            return False
        item = lane[position]
        return not isinstance(item, Wait) or launched[item.lane] >= item.launches

    def _launch(self, number: int, launch: Launch) -> None:
        if self._poison is not None:
            self._poison.before(launch)
        try:
            # A shape may leave a lane nothing to do.
            if launch.begin < launch.end:
                buffers = (self._buffers[b] for b in launch.buffers)
                self._functions[launch.kernel](*buffers, *launch.scalars, launch.begin, launch.end)
        except Exception as error:
            raise KernelError(
                f"unit '{self._program.units[launch.unit]}' failed in kernel "
                f"'{self._program.kernels[launch.kernel]}' on lane {number}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if self._poison is not None:
            self._poison.after(launch)


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
