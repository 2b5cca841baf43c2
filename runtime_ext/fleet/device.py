"""A fleet as a device that measured searches use: many machines of one kind."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.cpu.device import Sampling, of_a_tile
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
from runtime_ext.fleet.kernel_library import libraries_for
from runtime_ext.fleet.machine import Machine, Trial
from runtime_ext.fleet.machine_kind import MachineKind
from runtime_ext.fleet.pool import Gone, MachinePool, connect, told
from runtime_ext.fleet.tracker import Tracker
from runtime_ext.machine.this_machine import LEVELS, host_target, name_of
from tvm_ios.costs.log import MachineSamples
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.measuring.device import NO_CONSTANTS, Function
from tvm_ios.program.program import Program
from tvm_ios.program.program_json import program_to_json

T = TypeVar("T")


class FleetDevice:
    """Machines of one kind; see :class:`tvm_ios.measuring.device.Device`.

    As many callers as there are machines may time programs at once. The functions of programs'
    symbols are :class:`~runtime_ext.fleet.kernel_library.KernelLibrary` of :meth:`compiler`.

    Attributes
    ----------
    kind
        What the machines are.
    level
        The instruction-set level that kernels are compiled for.
    lanes
        Threads of a program.
    concurrency
        Machines to begin with.
    left_out
        Servers that do not answer or differ from the others.
    """

    splits: ClassVar[bool] = True

    def __init__(
        self,
        kind: MachineKind,
        level: str,
        lanes: int,
        pool: MachinePool,
        concurrency: int,
        left_out: tuple[Gone, ...],
    ) -> None:
        self.kind, self.level, self.lanes = kind, level, lanes
        self.concurrency, self.left_out = concurrency, left_out
        self._pool = pool
        # At exit, too: what refers to a server must not be dropped while that does not answer.
        self._finalizer = weakref.finalize(self, pool.close)

    @property
    def name(self) -> str:
        """The kind of machine, as each of them names itself."""
        return name_of(self.kind.processor, self.level, self.lanes)

    @property
    def target(self) -> Any:
        """What kernels are compiled for."""
        return host_target(self.lanes, self.level)

    @property
    def lost(self) -> tuple[Gone, ...]:
        """Machines that were lost, in order."""
        return tuple(self._pool.lost)

    @property
    def exhausted(self) -> bool:
        """Whether something could not be timed because no machine was left."""
        return self._pool.exhausted

    def compiler(
        self,
        cache: Path,
        database: Path | None = None,
        without: Iterable[str] = (),
        precision: str = "float32",
    ) -> KernelCompiler:
        """A compiler of kernels for the machines."""
        opened = libraries_for(self.kind.machine)
        return KernelCompiler(
            self.target,
            self.lanes,
            cache,
            database,
            opened,
            without=without,
            precision=precision,
        )

    def time_program(
        self, program: Program, function: Function, constants: Mapping[str, Array] = NO_CONSTANTS
    ) -> list[float]:
        """Samples, in seconds, of a program on random data; kernels here need no constants.

        Raises
        ------
        FleetLostError
            If no machine is left.
        """
        assert not constants
        trial = _trial(program, function)
        samples, machine = self._pool.run(lambda machine: machine.time(trial, Sampling()))
        return MachineSamples(samples, machine)

    def profile_phases(self, program: Program, function: Function) -> list[list[float]]:
        """For each launch of a program of one lane the seconds of one of its tiles, in rounds.

        Raises
        ------
        FleetLostError
            If no machine is left.
        """
        trial = _trial(program, function)
        launches, machine = self._pool.run(lambda machine: machine.profile(trial))
        return [MachineSamples(samples, machine) for samples in of_a_tile(program, launches)]

    def time_in_turn(
        self, trials: Sequence[Trial], sampling: Sampling, rounds: int
    ) -> list[list[float] | TrialError]:
        """Samples of each of some programs, which take turns on one machine, or why there are none.

        Raises
        ------
        UntimedError
            If no machine is left, or three were lost with these programs.
        """
        samples, _ = self._pool.run(lambda machine: machine.time_in_turn(trials, sampling, rounds))
        return samples

    def on_a_machine(self, measure: Callable[[Machine], T]) -> T:
        """What is measured on a machine that does nothing else; on another if it is lost.

        Raises
        ------
        UntimedError
            If no machine is left, or three were lost.
        """
        return self._pool.run(measure)[0]

    def renew(self, machine: Machine) -> None:
        """Make the processes on a lent machine fresh ones.

        Raises
        ------
        LostError
            If there is no server that could have them.
        """
        self._pool.renew(machine)

    def launch_overhead(self) -> list[float]:
        """None: the executor's calls are outside the spans that it takes of launches."""
        return [0.0]

    def close(self) -> None:
        """Give the servers back."""
        self._finalizer()


def open_fleet(
    choice: FleetChoice, cache: Path, *, lanes: int | None = None, level: str | None = None
) -> FleetDevice:
    """Connect to servers of a key, and see that they are alike.

    Parameters
    ----------
    choice
        Which ones.
    cache
        Folder of compiled kernels.
    lanes
        Threads of a program; as many as the machines can run at once by default.
    level
        What to compile for; the best that the machines have by default.

    Raises
    ------
    TrackerError
        If the tracker has no free server of the key.
    UserError
        If no server can be used, or they cannot run code of the level or so many threads.
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
    """The name that the device of :func:`open_fleet` would have; nothing is timed for it.

    Raises
    ------
    TrackerError, UserError
        As :func:`open_fleet`.
    """
    machines, _ = connect(Tracker(choice.tracker), choice)
    try:
        kind = _most_frequent([machine.kind for machine in machines])
        lanes, level = _checked(kind, lanes, None)
        return name_of(kind.processor, level, lanes)
    finally:
        for machine in machines:
            machine.close()


def _trial(program: Program, function: Function) -> Trial:
    return Trial(program_to_json(program), tuple(function(symbol) for symbol in program.kernels))


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
    levels = [*LEVELS]
    level = level or kind.level
    has = levels[levels.index(kind.level) :] if kind.level in levels else [kind.level]
    if level not in has:
        raise UserError(
            f"the machines of the fleet ({kind.processor}) cannot run {level}: give --arch "
            f"{' or '.join(has)}"
        )
    return lanes or kind.lanes, level


def _calibrated(
    machines: Sequence[Machine], trial: Trial, misfits: Callable[[dict[str, float]], object]
) -> tuple[dict[str, float], list[Gone]]:
    """Seconds of the calibration kernel, by machine, in the fastest of some rounds.

    As long as any machine seems to differ, which other work on it can cause, there are more rounds.
    """
    seconds: dict[str, float] = {}
    gone: dict[str, str] = {}
    for done in range(MOST_ROUNDS):
        if done >= ROUNDS and not misfits(seconds):
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
