"""Opening a fleet: connect to the servers of a key, and check that they are alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.fleet.calibration import (
    MOST_ROUNDS,
    ROUNDS,
    SAMPLING,
    calibration_trial,
    differing,
    median_of,
)
from runtime_ext.fleet.choice import FleetChoice
from runtime_ext.fleet.connection import LostError, TrialError
from runtime_ext.fleet.device import FleetDevice
from runtime_ext.fleet.kernel_library import libraries_for
from runtime_ext.fleet.machine import Machine, Trial
from runtime_ext.fleet.machine_kind import MachineKind
from runtime_ext.fleet.pool import Gone, MachinePool, connect, told
from runtime_ext.fleet.tracker import Tracker
from runtime_ext.isa.levels import level_named, levels_below
from runtime_ext.machine.this_machine import host_target, name_of
from tvm_ios.errors import UserError

#: The most levels that a refusal names.
_NAMED = 3


def open_fleet(
    choice: FleetChoice, cache: Path, *, lanes: int | None = None, level: str | None = None
) -> FleetDevice:
    """Connect to servers of a key, and keep those that are alike and equally fast.

    ``lanes`` are the threads of a program, by default as many as the machines can run at once;
    ``level`` is the instruction-set level to compile for, by default the highest they have. Raises
    TrackerError if the tracker has no free server of the key, and UserError if no server can be
    used, or they cannot run code of the level or so many threads.
    """
    tracker = Tracker(choice.tracker)
    machines, gone = connect(tracker, choice)
    fit: list[Machine] = []
    try:
        kind = _most_frequent([machine.kind for machine in machines])
        alike, others = _of_kind(machines, kind)
        lanes, level = _checked(kind, lanes, level)
        opened = libraries_for(kind.machine)
        compiler = KernelCompiler(host_target(lanes, level), lanes, cache, opened=opened)
        trial = calibration_trial(compiler, lanes)

        def apart(seconds: dict[str, float], median: float | None = None) -> dict[str, str]:
            return differing(seconds, median or median_of(seconds.values()), choice.tolerance)

        seconds, failed = _calibrated(alike, trial, apart)
        if not seconds:
            raise UserError(f"no server of the key {choice.key!r} is left: {told(failed)}")
        median, slow = median_of(seconds.values()), apart(seconds)
        fit = [m for m in alike if m.address in seconds and m.address not in slow]

        def misfit(machine: Machine) -> str | None:
            if different := kind.difference(machine.kind):
                return different
            taken, lost = _calibrated([machine], trial, lambda seconds: apart(seconds, median))
            return lost[0].why if lost else apart(taken, median).get(machine.address)

        pool = MachinePool(tracker, choice.key, fit, misfit)
        left_out = (*gone, *others, *failed, *(Gone(m, why) for m, why in slow.items()))
        return FleetDevice(kind, level, lanes, pool, len(fit), left_out)
    finally:
        for machine in machines:
            if machine not in fit:
                machine.close()


def fleet_name(choice: FleetChoice, *, lanes: int | None = None) -> str:
    """Return the name of the device that :func:`open_fleet` would open; time nothing.

    Raises as :func:`open_fleet`.
    """
    machines, _ = connect(Tracker(choice.tracker), choice)
    try:
        kind = _most_frequent([machine.kind for machine in machines])
        lanes, level = _checked(kind, lanes, None)
        return name_of(kind.processor, level, lanes)
    finally:
        for machine in machines:
            machine.close()


def _most_frequent(kinds: list[MachineKind]) -> MachineKind:
    return max(kinds, key=kinds.count)


def _of_kind(machines: list[Machine], kind: MachineKind) -> tuple[list[Machine], list[Gone]]:
    differences = {machine: kind.difference(machine.kind) for machine in machines}
    return (
        [machine for machine, why in differences.items() if why is None],
        [Gone(machine.address, why) for machine, why in differences.items() if why is not None],
    )


def _checked(kind: MachineKind, lanes: int | None, level: str | None) -> tuple[int, str]:
    if lanes is not None and lanes > kind.lanes:
        raise UserError(
            f"{lanes} lanes are too many for the machines of the fleet, which run {kind.lanes} "
            f"threads at once: give --lanes {kind.lanes} or fewer"
        )
    level = level or kind.level
    has = levels_below(level_named(kind.level))
    if level not in has:
        raise UserError(
            f"the machines of the fleet ({kind.processor}) cannot run {level}: give --arch "
            f"{' or '.join(has[:_NAMED])}"
        )
    return lanes or kind.lanes, level


def _calibrated(
    machines: Sequence[Machine], trial: Trial, misfits: Callable[[dict[str, float]], object]
) -> tuple[dict[str, float], list[Gone]]:
    """Return the calibration kernel's seconds by machine, in its fastest round, and lost machines.

    There are more rounds while any machine seems to differ, because other work can cause that.
    """
    seconds: dict[str, float] = {}
    gone: dict[str, str] = {}
    for done in range(MOST_ROUNDS):
        if done >= ROUNDS and not (seconds and misfits(seconds)):
            break
        for machine in machines:
            if machine.address in gone:
                continue
            try:
                (took,) = machine.time(trial, SAMPLING)
                seconds[machine.address] = min(took, seconds.get(machine.address, took))
            except (LostError, TrialError) as error:
                gone[machine.address] = str(error)
                seconds.pop(machine.address, None)
    return seconds, [Gone(machine, why) for machine, why in gone.items()]
