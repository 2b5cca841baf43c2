"""The CPU as a device: programs are timed on the native executor."""

from __future__ import annotations

import math
import resource
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import tvm_ffi

from runtime_ext.execution.buffers import allocate
from runtime_ext.execution.native_executor import NativeExecutor
from runtime_ext.machine.this_machine import device_name
from tvm_ios.files.array_files import Array
from tvm_ios.measuring.device import NO_CONSTANTS, Function
from tvm_ios.program.program import Launch, Program

_SAMPLES = 12
#: Seconds of one sample: long enough that the clock and the start of the lanes do not count.
_SAMPLE_SECONDS = 4e-4
_WARM_UP_SECONDS = 2e-3
_TRIES = 5
#: Rounds of a profile: enough for a median, and no more than take so many seconds.
_ROUNDS, _FEWEST_ROUNDS, _PROFILE_SECONDS = 15, 5, 5e-3
#: No clock is finer.
_SHORTEST = 1e-9


@dataclass(frozen=True)
class CpuDevice:
    """So many threads of this machine; see :class:`tvm_ios.measuring.device.Device`."""

    lanes: int
    concurrency: ClassVar[int] = 1
    splits: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The processor, its instruction set and the lanes."""
        return device_name(self.lanes)

    def time_program(
        self, program: Program, function: Function, constants: Mapping[str, Array] = NO_CONSTANTS
    ) -> list[float]:
        """Samples, in seconds, of a program on random data; kernels here need no constants."""
        assert not constants
        return time_program(program, function)

    def profile_phases(self, program: Program, function: Function) -> list[list[float]]:
        """For each launch of a program of one lane the seconds of one of its tiles, in rounds."""
        return profile_phases(program, function)

    def launch_overhead(self) -> list[float]:
        """None: the executor's calls are outside the spans that it takes of launches."""
        return [0.0]


def time_program(program: Program, function: Function) -> list[float]:
    """Samples, in seconds, of a program on random data."""
    buffers = random_buffers(program)
    functions = {symbol: function(symbol) for symbol in program.kernels}
    executor = NativeExecutor(program, functions, buffers)
    try:
        (seconds,) = executor.benchmark(1, 1)
        warm_up = max(1, math.ceil(_WARM_UP_SECONDS / seconds)) if seconds < _WARM_UP_SECONDS else 1
        (seconds,) = executor.benchmark(warm_up, 1)
        number = max(1, math.ceil(_SAMPLE_SECONDS / seconds))
        return undisturbed(lambda: executor.benchmark(number, _SAMPLES))
    finally:
        executor.close()


def undisturbed(sample: Callable[[], list[float]]) -> list[float]:
    """Samples during which the system stopped no thread of the process, or the best of a few tries.

    A lane that is stopped makes the others wait, so on a busy machine kernels seem to gain
    nothing by more lanes.
    """
    tries: list[list[float]] = []
    for _ in range(_TRIES):
        interruptions = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        tries.append(sample())
        if resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw == interruptions:
            return tries[-1]
    return min(tries, key=statistics.median)


def profile_phases(program: Program, function: Function) -> list[list[float]]:
    """For each launch of a program of one lane the seconds of one of its tiles, several rounds."""
    buffers = random_buffers(program)
    functions = {symbol: function(symbol) for symbol in program.kernels}
    (lane,) = program.lanes
    tiles = [item.end - item.begin for item in lane if isinstance(item, Launch)]
    executor = NativeExecutor(program, functions, buffers)
    try:
        executor.run()
        (run_seconds,) = executor.benchmark(1, 1)
        rounds = max(_FEWEST_ROUNDS, min(_ROUNDS, int(_PROFILE_SECONDS / run_seconds)))
        samples: list[list[float]] = [[] for _ in tiles]
        for _ in range(rounds):
            for span in executor.profile():
                seconds = max(span.end - span.begin, _SHORTEST)
                samples[span.launch].append(seconds / tiles[span.launch])
        return samples
    finally:
        executor.close()


def random_buffers(program: Program) -> list[Any]:
    """A tensor a buffer, of numbers that neither overflow nor become denormal.

    A part has the tensor of its whole.
    """
    rng = np.random.default_rng(0)
    wholes: dict[int, Any] = {}
    for number, buffer in enumerate(program.buffers):
        if buffer.part is not None:
            continue
        array = allocate(buffer.type)
        if array.dtype.kind == "f":
            array[...] = rng.random(array.shape, np.float32)
            array -= array.dtype.type(0.5)
        wholes[number] = tvm_ffi.from_dlpack(array)
    return [
        wholes[n if buffer.part is None else buffer.part.of]
        for n, buffer in enumerate(program.buffers)
    ]
