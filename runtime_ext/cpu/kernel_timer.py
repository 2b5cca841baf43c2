"""Time blockings of one contraction in turns, on as many lanes as will run them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import tvm

from runtime_ext.cpu.device import random_buffers
from runtime_ext.cpu.kernel_build import build_kernel
from runtime_ext.cpu.linker import link
from runtime_ext.cpu.machine_code import object_code
from runtime_ext.execution.native_executor import NativeExecutor
from runtime_ext.isa.levels import isa_of
from runtime_ext.kernels.spec import Contraction
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.program.program import Buffer, BufferType, KernelUse, Launch, Program, Role

#: The times that each kernel is timed.
ROUNDS = 11
#: Seconds of one sample: long enough that the clock and the start of the lanes do not count.
SAMPLE_SECONDS = 3e-4
#: Seconds between kernels, after which lanes of the one before no longer spin; and seconds of
#: spinning.
_PAUSE, _SPIN = 3e-4, 1e-4


class KernelTimer:
    """A timer that builds and runs kernels in this process; a kill leaves no processes behind."""

    def __init__(self, target: Any, lanes: int) -> None:
        self.target = target
        self.lanes = lanes

    def measure(self, specs: Sequence[Contraction]) -> list[float]:
        """Return the seconds of each kernel in its fastest round.

        Kernels take turns, so that other load or a warming machine affects all of them alike; the
        minimum is taken because disturbances only add time.
        """
        with temporary_folder() as folder, ExitStack() as stack:
            programs, objects = compiled_programs(specs, self.target, self.lanes, folder)
            path = folder / "kernels.so"
            link(path, objects)
            module = tvm.runtime.load_module(str(path))
            runners: list[tuple[NativeExecutor, int]] = []
            for program in programs:
                (symbol,) = program.kernels
                executor = NativeExecutor(
                    program,
                    {symbol: module[symbol]},
                    random_buffers(program),
                    spin_seconds=_SPIN,
                )
                stack.callback(executor.close)
                seconds = min(executor.benchmark(1, 3))
                runners.append((executor, max(1, math.ceil(SAMPLE_SECONDS / seconds))))
            rounds = [[_sample(*runner) for runner in runners] for _ in range(ROUNDS)]
        return [min(samples) for samples in zip(*rounds, strict=True)]


def compiled_programs(
    specs: Sequence[Contraction], target: Any, lanes: int, folder: Path
) -> tuple[list[Program], list[Path]]:
    """Compile each contraction; return a one-kernel program for each, and the object files."""
    isa = isa_of(target)

    def make(number: int) -> tuple[Program, Path]:
        artefact, library = build_kernel(specs[number], str(number), target, isa)
        path = folder / f"{number}.o"
        path.write_bytes(object_code(library))
        (phase,) = artefact.phases
        return _program(specs[number], phase.symbol, phase.tiles, lanes), path

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(make, range(len(specs))))
    return [program for program, _ in made], [path for _, path in made]


def _program(spec: Contraction, symbol: str, tiles: int, lanes: int) -> Program:
    """Return a program of one kernel whose tiles are divided evenly among the lanes."""
    written = {statement.target.buffer for statement in spec.statements}
    roles = {spec.weight: Role.CONSTANT, **dict.fromkeys(written, Role.OUTPUT)}
    buffers = tuple(
        Buffer(f"b{i}", BufferType(shape), roles.get(i, Role.INPUT))
        for i, shape in enumerate(spec.buffers)
    )
    borders = [tiles * lane // lanes for lane in range(lanes + 1)]
    arguments = tuple(range(len(buffers)))
    return Program(
        lanes=tuple((Launch(0, arguments, begin, end, 0),) for begin, end in pairwise(borders)),
        kernels=(symbol,),
        buffers=buffers,
        units=("kernel",),
        uses=(KernelUse(tiles, len(buffers), tuple(sorted(written))),),
    )


def _sample(executor: NativeExecutor, number: int) -> float:
    time.sleep(_PAUSE)
    executor.benchmark(1, 1)
    (seconds,) = executor.benchmark(number, 1)
    return seconds
