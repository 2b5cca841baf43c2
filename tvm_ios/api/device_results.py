"""What timing a model's programs on a device of another package came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tvm_ios.program.arena.planner import PlannedMemory


@dataclass(frozen=True, slots=True)
class PolicyOnDevice:
    """How fast the program of a policy is on a device.

    Attributes
    ----------
    policy
        Its name.
    stages, launches
        How many its schedule, and its program, have.
    latency
        Median seconds.
    ratio
        Of these to the sequential program's.
    max_rel_error
        Largest difference to the reference, relative to the output's largest value; None if the
        program was not run.
    """

    policy: str
    stages: int
    launches: int
    latency: float
    ratio: float
    max_rel_error: float | None


@dataclass(frozen=True)
class OnDevice:
    """What :func:`optimize_on_device` did.

    Attributes
    ----------
    model
        The model's name.
    device
        The device's name and version.
    cost
        What the searches went by: ``measured`` on the device, or a name or file.
    policies
        All whose programs were timed.
    kept
        The policy that is kept: ``sequential`` where no other is faster.
    reference
        Whose outputs the programs' were compared with; None if they were not.
    not_verified
        Why they were not, a sentence; empty if they were.
    skipped
        Policies without a time, with a sentence each.
    stages_measured
        How many stages the device timed.
    memory
        Where the kept program's intermediate buffers lie.
    executable, schedule
        Where these went; None if nothing was saved.
    notes
        What people should know, a sentence each.
    """

    model: str
    device: str
    cost: str
    policies: tuple[PolicyOnDevice, ...]
    kept: str
    reference: str | None
    not_verified: str
    skipped: Mapping[str, str]
    stages_measured: int
    memory: PlannedMemory
    executable: Path | None
    schedule: Path | None
    notes: tuple[str, ...]
