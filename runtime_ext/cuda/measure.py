"""Measure the seconds of programs on a GPU, by the GPU's own clock.

A sample is a captured graph of runs, fork and join included, repeated within the graph, so that the
host has no part in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from runtime_ext.cuda.executor import CudaExecutor, run_on_device
from runtime_ext.cuda.machine_code.launchable import Launchable
from runtime_ext.cuda.nvidia.driver import call, open_device
from runtime_ext.cuda.nvidia.memory import DeviceMemory
from runtime_ext.cuda.nvidia.resources import DeviceBytes, event, upload
from tvm_ios.files.array_files import Array
from tvm_ios.measuring.device import NO_CONSTANTS, launches_alone
from tvm_ios.program.program import Launch, Program

#: Returns the kernel of a symbol.
KernelOf = Callable[[str], Launchable]

_SAMPLES = 12
#: Seconds of one sample, long enough that the launch of a graph does not matter.
_SAMPLE_SECONDS = 1e-3
#: Most nodes of a graph, so that it is captured in milliseconds; longer samples replay it.
_MOST_NODES = 1000
#: Runs of one sample when the cache is flushed before each.
_FLUSHED_RUNS = 5
#: Bytes of random numbers in a buffer, which then repeat.
_DRAWN_BYTES = 16 << 20
#: Bytes written to flush the second-level cache, as a multiple of its size: the host issues the
#: next run meanwhile.
_FLUSHED_CACHES = 4

#: A kernel that does nothing, in assembly that every driver takes.
_NOTHING = Launchable(
    entry="nothing",
    grid=(1, 1, 1),
    block=(32, 1, 1),
    shared_bytes=0,
    cubin=b".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry nothing() { ret; }\n\0",
)


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """A GPU, by its CUDA number, on which measured searches time programs.

    ``lanes`` is the number of streams that a program may use; with ``flush`` the second-level cache
    has none of a run's data when it begins.
    """

    number: int = 0
    lanes: int = 8
    flush: bool = False

    #: A kernel runs whole.
    splits = False
    concurrency = 1

    @property
    def name(self) -> str:
        """The GPU's name, as NVIDIA gives it."""
        return open_device(self.number).name

    def time_program(
        self, program: Program, function: KernelOf, constants: Mapping[str, Array] = NO_CONSTANTS
    ) -> list[float]:
        """Return samples, in seconds per run, of a program on random data and given constants.

        ``function`` returns the compiled kernel of a name.
        """
        return time_program(
            program, function, device=self.number, flush=self.flush, constants=constants
        )

    def profile_phases(self, program: Program, function: KernelOf) -> list[list[float]]:
        """Return samples of the seconds of each launch of a one-lane program, run alone."""
        return [self.time_program(alone, function) for alone in launches_alone(program)]

    def launch_overhead(self) -> list[float]:
        """Return the seconds of a kernel that does nothing, timed as the others are."""
        launches = (Launch(0, (), 0, 1, 0),)
        program = Program((launches,), ("nothing",), (), ("nothing",))
        return self.time_program(program, lambda _: _NOTHING)


def time_program(
    program: Program,
    function: KernelOf,
    *,
    device: int = 0,
    flush: bool = False,
    constants: Mapping[str, Array] = NO_CONSTANTS,
) -> list[float]:
    """Return samples, in seconds per run, of a program on random data.

    With ``flush`` the second-level cache is overwritten before each run, outside of the measured
    time. ``constants`` are those that cannot be random, by buffer name. Raise KernelError if a
    kernel fails, CudaError if there is no GPU or it cannot hold the program.
    """
    kernels: Mapping[str, Launchable] = {symbol: function(symbol) for symbol in program.kernels}
    memory, executor = run_on_device(program, kernels, None, None, device)
    try:
        _fill(memory, program, executor.origin)
        for name, value in constants.items():
            memory.write(name, value)
        executor.run()
        return _flushed(executor) if flush else _repeated(executor)
    finally:
        executor.close()


def _repeated(executor: CudaExecutor) -> list[float]:
    """Return samples of runs back to back, whose data stay in the cache as far as it fits."""
    (seconds,) = executor.benchmark(1, 1)
    (seconds,) = executor.benchmark(max(1, math.ceil(_SAMPLE_SECONDS / max(seconds, 1e-6))), 1)
    runs = max(1, math.ceil(_SAMPLE_SECONDS / max(seconds, 1e-7)))
    runs_in_graph = max(1, min(runs, _MOST_NODES // max(executor.launches, 1)))
    replays = math.ceil(runs / runs_in_graph)
    graph = executor.capture(runs_in_graph)
    begin, end = (event(executor.device, timing=True) for _ in range(2))
    samples: list[float] = []
    for sample in range(_SAMPLES + 1):
        call("cuEventRecord", begin.handle, executor.origin)
        for _ in range(replays):
            call("cuGraphLaunch", graph.handle, executor.origin)
        call("cuEventRecord", end.handle, executor.origin)
        call("cuStreamSynchronize", executor.origin)
        # The first one warms the graph itself up.
        if sample:
            samples.append(_seconds(begin, end) / (runs_in_graph * replays))
    return samples


def _flushed(executor: CudaExecutor) -> list[float]:
    """Return samples of runs that find none of their data in the cache."""
    size = _FLUSHED_CACHES * executor.device.l2_bytes
    spill = DeviceBytes(executor.device, size)
    graph = executor.capture(1)
    pairs = [[event(executor.device, timing=True) for _ in range(2)] for _ in range(_FLUSHED_RUNS)]
    samples: list[float] = []
    for sample in range(_SAMPLES + 1):
        for begin, end in pairs:
            call("cuMemsetD8Async", spill.address, sample, size, executor.origin)
            call("cuEventRecord", begin.handle, executor.origin)
            call("cuGraphLaunch", graph.handle, executor.origin)
            call("cuEventRecord", end.handle, executor.origin)
        call("cuStreamSynchronize", executor.origin)
        if sample:
            samples.append(sum(_seconds(*pair) for pair in pairs) / len(pairs))
    return samples


def _seconds(begin: Any, end: Any) -> float:
    return call("cuEventElapsedTime", begin.handle, end.handle) * 1e-3


def _fill(memory: DeviceMemory, program: Program, queue: Any) -> None:
    """Fill buffers with random numbers that do not overflow; equal ones would need less power."""
    for number, buffer in enumerate(program.buffers):
        if buffer.part is None and buffer.type.nbytes:
            dtype = np.dtype(buffer.type.dtype)
            address, nbytes = memory.addresses[number], buffer.type.nbytes
            # Draw few different arrays, and copy none that is large, whatever the buffer's size.
            filled = min(nbytes, _DRAWN_BYTES)
            data = _numbers(dtype.str, 1 << (filled // dtype.itemsize - 1).bit_length())
            upload(address, data[: filled // dtype.itemsize])
            while filled < nbytes:
                chunk = min(filled, nbytes - filled)
                call("cuMemcpyDtoDAsync", address + filled, address, chunk, queue)
                filled += chunk
    call("cuStreamSynchronize", queue)


@cache
def _numbers(dtype: str, count: int) -> Array:
    numpy_dtype = np.dtype(dtype)
    if numpy_dtype.kind != "f":
        # Integers may be indices: zero is always valid.
        return np.zeros(count, numpy_dtype)
    return (np.random.default_rng(0).random(count, np.float32) - 0.5).astype(numpy_dtype)
