"""The CPU as a device: programs are timed on the native executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import tvm_ffi

from runtime_ext.execution.buffers import allocate
from runtime_ext.execution.native_executor import NativeExecutor
from runtime_ext.machine.this_machine import device_name
from runtime_ext.native_library import load_native_library
from tvm_ios.files.array_files import Array
from tvm_ios.measuring.device import NO_CONSTANTS, Function
from tvm_ios.program.program import Launch, Program

#: If the system stops threads meanwhile, up to this multiple of the samples is taken.
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Sampling:
    """Options of timing a program; ``runtime_ext/native/sampling.h`` implements it."""

    #: How many samples are taken, each the mean of some runs; fewer of long programs.
    samples: int = 12
    #: Seconds of one sample: long enough to hide the clock's resolution and the start of lanes.
    sample_seconds: float = 4e-4
    #: Until enough samples are undisturbed, at most ``tries`` times as many are taken.
    tries: int = field(default_factory=lambda: _TRIES)


@dataclass(frozen=True)
class CpuDevice:
    """A number of threads of this machine; see :class:`tvm_ios.measuring.device.Device`."""

    lanes: int
    concurrency = 1
    splits = True

    @property
    def name(self) -> str:
        """The processor, its instruction set and the lanes."""
        return device_name(self.lanes)

    def time_program(
        self, program: Program, function: Function, constants: Mapping[str, Array] = NO_CONSTANTS
    ) -> list[float]:
        """Return samples, in seconds, of a program on random data; ``constants`` must be empty."""
        assert not constants
        return time_program(program, function)

    def profile_phases(self, program: Program, function: Function) -> list[list[float]]:
        """Return the seconds of one tile of each launch, by round; the program has one lane."""
        return profile_phases(program, function)

    def launch_overhead(self) -> list[float]:
        """Return zero: the executor's timestamps exclude the overhead of its calls."""
        return [0.0]


def time_program(program: Program, function: Function) -> list[float]:
    """Return samples, in seconds, of a program on random data."""
    executor = _executor(program, function)
    try:
        return executor.time(**asdict(Sampling()))
    finally:
        executor.close()


def profile_phases(program: Program, function: Function) -> list[list[float]]:
    """Return the seconds of one tile of each launch, a sample a round; the program has one lane."""
    executor = _executor(program, function)
    try:
        return of_a_tile(program, executor.profile_launches())
    finally:
        executor.close()


def of_a_tile(program: Program, launches: Sequence[Sequence[float]]) -> list[list[float]]:
    """Divide the seconds of each launch of a one-lane program by the launch's number of tiles."""
    (lane,) = program.lanes
    tiles = [item.end - item.begin for item in lane if isinstance(item, Launch)]
    return [[s / n for s in samples] for samples, n in zip(launches, tiles, strict=True)]


def random_buffers(program: Program) -> list[Any]:
    """Allocate a tensor for each buffer, of numbers that neither overflow nor become denormal.

    A buffer that is part of another has the tensor of the whole.
    """
    fill = load_native_library()["fill_random"]
    wholes: dict[int, Any] = {}
    for number, buffer in enumerate(program.buffers):
        if buffer.part is None:
            wholes[number] = tvm_ffi.from_dlpack(allocate(buffer.type))
            fill(wholes[number], number)
    return [
        wholes[n if buffer.part is None else buffer.part.of]
        for n, buffer in enumerate(program.buffers)
    ]


def _executor(program: Program, function: Function) -> NativeExecutor:
    functions = {symbol: function(symbol) for symbol in program.kernels}
    return NativeExecutor(program, functions, random_buffers(program))
