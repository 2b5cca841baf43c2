"""Measure this machine's peak: arithmetic in GFLOP/s and memory traffic in GB/s."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm_ffi

from runtime_ext.execution.buffers import allocate
from runtime_ext.execution.native_executor import NativeExecutor
from runtime_ext.machine.hardware import available_memory, last_level_cache
from runtime_ext.native_library import load_native_library
from tvm_ios.program.program import Buffer, BufferType, Launch, Program, Role

_TILES_A_LANE = 32
#: The size of the triad's three arrays: this multiple of the last-level cache, up to this many
#: bytes.
_TIMES_THE_CACHE = 4
_MOST_BYTES = 1 << 30
_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak that some lanes reach together."""

    #: 1e9 float32 operations a second, of multiply-adds in registers.
    gflops: float
    #: 1e9 bytes a second of memory traffic, of a triad ``a = b + s c`` over arrays larger than the
    #: last-level cache; two reads and one write an element, as STREAM counts.
    gbps: float


@cache
def measured_peak(lanes: int) -> Peak:
    """Measure the peak of ``lanes`` threads; takes about a second, once a process.

    The kernels of ``runtime_ext/native/peak.cc`` use the widest vectors of this machine and run on
    the native executor, as models do: their rates bound those of a perfect kernel.
    """
    library = load_native_library()
    width, sums, steps, strip = map(int, library["peak_tile"]())
    return Peak(
        _arithmetic(lanes, width, sums * steps, library["peak_multiply_add"]) / 1e9,
        _traffic(lanes, strip, library["peak_triad"]) / 1e9,
    )


def _arithmetic(lanes: int, width: int, steps: int, function: Callable[..., Any]) -> float:
    """Time ``function``, a compiled kernel of multiply-adds, on ``lanes`` CPUs.

    Return operations a second. ``width`` is the floats of a vector, ``steps`` the multiply-adds of
    a tile.
    """
    tiles = lanes * _TILES_A_LANE
    factors = Buffer("factors", BufferType((2 * width,)), Role.INPUT)
    sums = Buffer("sums", BufferType((tiles * width,)), Role.OUTPUT)
    program = Program(
        tuple((Launch(0, (0, 1), *_share(tiles, lanes, i), 0),) for i in range(lanes)),
        ("multiply_add",),
        (factors, sums),
        ("multiply_add",),
    )
    arrays = [allocate(buffer.type) for buffer in program.buffers]
    # The sums converge to one, without overflow or denormal numbers, which are slow.
    arrays[0][:] = 0.5
    return tiles * steps * width * 2 / _best(program, function, arrays)


def _traffic(lanes: int, strip: int, function: Callable[..., Any]) -> float:
    """Measure bytes a second of the triad; ``strip`` is the number of elements of a tile."""
    most = min(_MOST_BYTES, available_memory() // 4)
    size = min(most, _TIMES_THE_CACHE * last_level_cache()) // 3
    tiles = max(lanes, size // 4 // strip)
    buffers = tuple(Buffer(name, BufferType((tiles * strip,)), Role.INTERMEDIATE) for name in "abc")
    # Each lane first writes its part of each array, so that the system places it in memory near the
    # lane.
    program = Program(
        tuple(
            tuple(
                Launch(0, (i, (i + 1) % 3, (i + 2) % 3), *_share(tiles, lanes, lane), 0)
                for i in range(3)
            )
            for lane in range(lanes)
        ),
        ("triad",),
        buffers,
        ("triad",),
    )
    arrays = [allocate(buffer.type) for buffer in buffers]
    return 3 * 3 * 4 * tiles * strip / _best(program, function, arrays)


def _best(program: Program, function: Callable[..., Any], arrays: list[Any]) -> float:
    """Return the seconds of the fastest of several runs."""
    tensors = [tvm_ffi.from_dlpack(array) for array in arrays]
    executor = NativeExecutor(program, {program.kernels[0]: function}, tensors)
    try:
        executor.run()
        (seconds,) = executor.benchmark(1, 1)
        return min(executor.benchmark(1, max(3, min(1000, round(_SECONDS / seconds)))))
    finally:
        executor.close()


def _share(tiles: int, lanes: int, lane: int) -> tuple[int, int]:
    return tiles * lane // lanes, tiles * (lane + 1) // lanes
