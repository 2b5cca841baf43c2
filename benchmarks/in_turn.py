"""Two programs in one process, in turn: the ratio of their times from pairs of runs.

Also the command line of scripts that measure networks so, on several numbers of lanes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import read_figures, write_result
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


def shown(ratio: Mapping[str, float]) -> str:
    """A ratio and its interval, of a result."""
    return f"{ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"


def measure_networks(
    result: str,
    description: str | None,
    networks: Sequence[str],
    measure: Callable[[str, int], dict[str, Any]],
    show: Callable[[Sequence[dict[str, Any]]], None],
) -> None:
    """Measure what the command line names and the result does not have, and show all.

    Parameters
    ----------
    result
        Where the figures are kept, unless the command line says otherwise.
    description
        Of the command.
    networks
        What is measured if none is named.
    measure
        The figures of a network, on so many lanes.
    show
        Prints figures.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("networks", nargs="*", default=networks, help="of the zoo, or files")
    parser.add_argument("--lanes", nargs="+", type=int, default=[1, 2], help="numbers of lanes")
    parser.add_argument("--again", action="store_true", help="measure what the results have")
    parser.add_argument(
        "--result", default=result, help="the file of results/ for another machine's figures"
    )
    given = parser.parse_args()
    figures = {(row["network"], row["lanes"]): row for row in read_figures(given.result)}
    for network in given.networks:
        for lanes in given.lanes:
            key = Path(network).stem, lanes
            if given.again or key not in figures:
                figures[key] = {**measure(network, lanes), "network": key[0]}
                write_result(given.result, list(figures.values()))
    show(list(figures.values()))
