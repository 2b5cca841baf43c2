"""Two programs in one process, in turn: the ratio of their times from pairs of runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from runtime_ext.cpu.device import random_buffers
from runtime_ext.execution.native_executor import NativeExecutor
from tvm_ios.contest.pairs import PairedRatio, paired_ratio
from tvm_ios.program.program import Program

#: Mean seconds of so many runs.
Runner = Callable[[int], float]

_SAMPLE_SECONDS = 1e-3


def program_runner(compiler: Any, program: Program) -> Runner:
    """Runs a program on random data."""
    functions = {symbol: compiler.function(symbol) for symbol in program.kernels}
    executor = NativeExecutor(program, functions, random_buffers(program))
    return lambda number: executor.benchmark(number, 1)[0]


def session_runner(session: Any) -> Runner:
    """Runs a session, which has its inputs."""
    return lambda number: session.benchmark(number, 1)[0]


def compared(
    old: Runner, new: Runner, pairs: int = 41, most: float = 4.0
) -> tuple[PairedRatio, tuple[float, float]]:
    """The ratio of the new one to the old one, and the least seconds of the old and the new."""
    quickest = min(old(1) for _ in range(3))
    new(1)
    number = max(1, int(_SAMPLE_SECONDS / quickest))
    samples: tuple[list[float], list[float]] = [], []
    for turn in _turns(pairs, most):
        runners = list(zip((old, new), samples, strict=True))
        for run, seconds in runners if turn % 2 else reversed(runners):
            seconds.append(run(number))
    return paired_ratio(samples[1], samples[0]), (min(samples[0]), min(samples[1]))


def _turns(pairs: int, most: float) -> Iterator[int]:
    end = time.monotonic() + most
    for turn in range(pairs):
        if turn > 8 and time.monotonic() > end:
            return
        yield turn
