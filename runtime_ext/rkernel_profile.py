"""Profiles of rKernels: how long one rTask of each phase takes on one execution unit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from runtime_ext.native_executor import NativeExecutor
from tvm_ios.cost.log import MeasurementLog, quietest
from tvm_ios.program import Launch, Program, UnitCode

#: Rounds of a profile: enough for a median, and no more than take so many seconds.
_ROUNDS, _FEWEST_ROUNDS, _SECONDS = 15, 5, 5e-3
#: No clock is finer.
_SHORTEST = 1e-9


def task_seconds(
    code: UnitCode,
    key: str,
    log: MeasurementLog,
    label: str,
    profile: Callable[[], list[list[float]]],
) -> tuple[float, ...]:
    """Seconds of a task of each phase, from the log or profiled now.

    Parameters
    ----------
    code, key
        Of a unit in one of its forms.
    log
        Where the samples are kept; equal code of any unit is profiled once.
    label
        What it is, for people.
    profile
        Samples of each phase, as :func:`profile_phases` takes them.
    """
    keys = [_phase_key(key, phase) for phase in range(len(code.calls))]
    if any(map(log.wants, keys)):
        for phase, (k, samples) in enumerate(zip(keys, profile(), strict=True)):
            log.append(k, samples, f"{label}, task of phase {phase}")
    return tuple(quietest(log.measurements[k]) for k in keys)


def profile_phases(
    program: Program, function: Callable[[str], Any], buffers: Sequence[Any]
) -> list[list[float]]:
    """For each launch of a program of one lane the seconds of one of its tiles, several rounds."""
    functions = {symbol: function(symbol) for symbol in program.kernels}
    (lane,) = program.lanes
    tiles = [item.end - item.begin for item in lane if isinstance(item, Launch)]
    executor = NativeExecutor(program, functions, buffers)
    try:
        executor.run()
        (once,) = executor.benchmark(1, 1)
        rounds = max(_FEWEST_ROUNDS, min(_ROUNDS, int(_SECONDS / once)))
        samples: list[list[float]] = [[] for _ in tiles]
        for _ in range(rounds):
            for span in executor.profile():
                seconds = max(span.end - span.begin, _SHORTEST)
                samples[span.launch].append(seconds / tiles[span.launch])
        return samples
    finally:
        executor.close()


def _phase_key(key: str, phase: int) -> str:
    text = json.dumps(["task", key, phase, "1 lane, warm"])
    return hashlib.sha256(text.encode()).hexdigest()
