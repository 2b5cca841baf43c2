"""What this machine can do at most, measured: arithmetic in GFLOP/s and memory traffic in GB/s."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm

from tvm_ios.errors import UserError

try:
    from tvm import tirx
except ImportError as error:
    raise UserError(
        f"what this machine can do is measured by kernels that TVM {tvm.__version__} cannot make: "
        "do it where apache-tvm 0.27 is installed, which runs executables of both dialects"
    ) from error

from runtime_ext.cpu.kernels.vector_unit import VectorUnit
from runtime_ext.execution.buffers import allocate
from runtime_ext.execution.native_executor import NativeExecutor
from runtime_ext.kernels.code import Code, load
from runtime_ext.machine.hardware import available_memory, last_level_cache
from runtime_ext.machine.this_machine import host_target
from tvm_ios.program.program import Buffer, BufferType, Launch, Program, Role

#: Independent sums: enough for two units of a latency of four cycles, few enough for 16 registers.
_SUMS = 12
#: Multiply-adds of each sum in a tile; some microseconds.
_STEPS = 4096
_TILES_A_LANE = 32
#: Elements of a tile of the triad.
_STRIP = 1 << 14
#: The three arrays of the triad together: so many times the last-level cache, but no more bytes.
_TIMES_THE_CACHE = 4
_MOST_BYTES = 1 << 30
_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Peak:
    """What some lanes reach together.

    Attributes
    ----------
    gflops
        1e9 float32 operations a second, of multiply-adds in registers.
    gbps
        1e9 bytes a second of memory traffic, of a triad ``a = b + s c`` over arrays larger than
        the last-level cache; read twice and written once an element, as STREAM counts.
    """

    gflops: float
    gbps: float


@cache
def measured_peak(lanes: int) -> Peak:
    """Measure the peak of so many lanes; takes about a second, once a process.

    The kernels are compiled by TVM for this machine and run on the native executor, as those of
    models are: what they reach is what a perfect kernel of a model could.

    Parameters
    ----------
    lanes
        How many threads run at once.
    """
    library, width = _compile(lanes)
    return Peak(
        _arithmetic(lanes, width, library["multiply_add"]) / 1e9,
        _traffic(lanes, library["triad"]) / 1e9,
    )


def _compile(lanes: int) -> tuple[Any, int]:
    """The compiled functions, and how many numbers their vectors have."""
    target = host_target(lanes)
    width = VectorUnit.of(target).lanes
    functions = {"multiply_add": _multiply_add(width), "triad": _triad(width)}
    module = tvm.IRModule(
        {name: f.with_attr("global_symbol", name) for name, f in functions.items()}
    )
    return tvm.tirx.build(module, target=target, pipeline="tirx"), width


def _arithmetic(lanes: int, width: int, function: Callable[..., Any]) -> float:
    """Operations a second that the multiply-adds reach."""
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
    # The sums converge to one: neither overflow nor numbers that are slow to compute with.
    arrays[0][:] = 0.5
    return tiles * _STEPS * _SUMS * width * 2 / _best(program, function, arrays)


def _traffic(lanes: int, function: Callable[..., Any]) -> float:
    """Bytes a second that the triad moves."""
    most = min(_MOST_BYTES, available_memory() // 4)
    size = min(most, _TIMES_THE_CACHE * last_level_cache()) // 3
    tiles = max(lanes, size // 4 // _STRIP)
    buffers = tuple(
        Buffer(name, BufferType((tiles * _STRIP,)), Role.INTERMEDIATE) for name in "abc"
    )
    # Every lane writes its part of each array in turn: the system then gives it memory near it.
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
    return 3 * 3 * 4 * tiles * _STRIP / _best(program, function, arrays)


def _best(program: Program, function: Callable[..., Any], arrays: list[Any]) -> float:
    """Seconds of the fastest run: a peak is what nothing disturbed."""
    tensors = [tvm.runtime.from_dlpack(array) for array in arrays]
    executor = NativeExecutor(program, {program.kernels[0]: function}, tensors)
    try:
        executor.run()
        (seconds,) = executor.benchmark(1, 1)
        return min(executor.benchmark(1, max(3, min(1000, round(_SECONDS / seconds)))))
    finally:
        executor.close()


def _share(tiles: int, lanes: int, lane: int) -> tuple[int, int]:
    return tiles * lane // lanes, tiles * (lane + 1) // lanes


def _multiply_add(width: int) -> Any:
    """``(factors, sums, begin, end)``: multiply-adds that touch no memory."""
    factors = tirx.decl_buffer((2 * width,), "float32", "factors")
    sums = tirx.decl_buffer((tirx.Var("n", "int32"),), "float32", "sums")
    begin, end = tirx.Var("begin", "int32"), tirx.Var("end", "int32")
    code = Code()
    factor = code.bind_vector("factor", load(factors, 0, width), width)
    term = code.bind_vector("term", load(factors, width, width), width)
    with code.loop("tile", begin, end) as tile:
        accumulators = code.accumulators(_SUMS, width)
        for acc in accumulators:
            code.store(acc, 0, factor, width)
        with code.loop("step", 0, _STEPS):
            for acc in accumulators:
                code.store(acc, 0, load(acc, 0, width) * factor + term, width)
        total = load(accumulators[0], 0, width)
        for acc in accumulators[1:]:
            total = total + load(acc, 0, width)
        code.store(sums, tile * width, total, width)
    return code.function([factors, sums], begin, end)


def _triad(width: int) -> Any:
    """``(a, b, c, begin, end)``: a = b + 3 c over strips."""
    size = tirx.Var("n", "int32")
    a, b, c = (tirx.decl_buffer((size,), "float32", name) for name in "abc")
    begin, end = tirx.Var("begin", "int32"), tirx.Var("end", "int32")
    code = Code()
    scale = tirx.Broadcast(tirx.FloatImm("float32", 3.0), tirx.IntImm("int32", width))
    with code.loop("tile", begin, end) as tile, code.loop("i", 0, _STRIP // width) as i:
        at = code.bind("at", tile * _STRIP + i * width)
        code.store(a, at, load(b, at, width) + load(c, at, width) * scale, width)
    return code.function([a, b, c], begin, end)
