"""Replacement of persistent kernels by launches on streams where these are no slower."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.waves import waves


def with_streams(
    schedule: Schedule, predecessors: Sequence[int], seconds: Callable[[Stage], float | None]
) -> Schedule:
    """Return a schedule with waves on streams in place of co-scheduled stages that are no faster.

    The schedule has the latencies of its stages. ``seconds`` returns those of a stage on streams,
    or None if the stage is not to be compared.
    """
    stages: list[Stage] = []
    kernels = dict(schedule.kernels)
    for stage, taken in zip(schedule.stages, schedule.latencies, strict=True):
        if stage.strategy is Strategy.CO_SCHEDULE:
            in_waves = [
                Stage(Strategy.CONCURRENT, tuple((unit,) for unit in wave))
                for wave in waves(predecessors, stage.units)
            ]
            on_streams = [s for s in map(seconds, in_waves) if s is not None]
            if len(on_streams) == len(in_waves) and sum(on_streams) <= taken:
                stages += [
                    replace(wave, latency=s) for wave, s in zip(in_waves, on_streams, strict=True)
                ]
                # On streams units have their usual kernels.
                kernels = {u: name for u, name in kernels.items() if u not in stage.units}
                continue
        stages.append(stage)
    return replace(schedule, stages=tuple(stages), kernels=kernels)
