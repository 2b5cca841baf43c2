"""Profiles of rKernels: how long one rTask of each phase takes on one execution unit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

from tvm_ios.cost.log import MeasurementLog, quietest
from tvm_ios.program import UnitCode


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
        Samples of each phase, as :meth:`runtime_ext.device.Device.profile_phases` takes them.
    """
    keys = [_phase_key(key, phase) for phase in range(len(code.calls))]
    if any(map(log.wants, keys)):
        for phase, (k, samples) in enumerate(zip(keys, profile(), strict=True)):
            log.append(k, samples, f"{label}, task of phase {phase}")
    return tuple(quietest(log.measurements[k]) for k in keys)


def _phase_key(key: str, phase: int) -> str:
    text = json.dumps(["task", key, phase, "1 lane, warm"])
    return hashlib.sha256(text.encode()).hexdigest()
