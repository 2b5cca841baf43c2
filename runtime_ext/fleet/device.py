"""A fleet as a device that measured searches use: many machines of one kind."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.cpu.device import Sampling, of_a_tile
from runtime_ext.fleet.connection import TrialError
from runtime_ext.fleet.kernel_library import libraries_for
from runtime_ext.fleet.machine import Machine, Trial
from runtime_ext.fleet.machine_kind import MachineKind
from runtime_ext.fleet.pool import Gone, MachinePool
from runtime_ext.machine.this_machine import host_target, name_of
from tvm_ios.costs.log_lines import MachineSamples
from tvm_ios.files.array_files import Array
from tvm_ios.measuring.device import NO_CONSTANTS, Function
from tvm_ios.program.program import Program
from tvm_ios.program.program_json import program_to_json

T = TypeVar("T")


class FleetDevice:
    """Machines of one kind as one :class:`tvm_ios.measuring.device.Device`.

    As many callers as there are machines may time programs at once. The functions of programs'
    symbols are :class:`~runtime_ext.fleet.kernel_library.KernelLibrary` of :meth:`compiler`.

    Attributes
    ----------
    kind
        The kind of machine.
    level
        The instruction-set level that kernels are compiled for.
    lanes
        Threads of a program.
    concurrency
        Machines to begin with.
    left_out
        Servers that do not answer or differ from the others.
    """

    splits = True

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
        # Also at exit: objects that refer to a server must not be dropped while it does not answer.
        self._finalizer = weakref.finalize(self, pool.close)

    @property
    def name(self) -> str:
        """The device name that each of the machines would have by itself."""
        return name_of(self.kind.processor, self.level, self.lanes)

    @property
    def target(self) -> Any:
        """The TVM target that kernels are compiled for."""
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
        """Return a compiler of kernels for the machines."""
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
        """Return time samples, in seconds, of a program on random data.

        Kernels of a fleet need no constants. Raise FleetLostError if no machine is left.
        """
        assert not constants
        trial = _trial(program, function)
        samples, machine = self._pool.run(lambda machine: machine.time(trial, Sampling()))
        return MachineSamples(samples, machine)

    def profile_phases(self, program: Program, function: Function) -> list[list[float]]:
        """Return for each launch of a one-lane program the seconds of one of its tiles, in rounds.

        Raise FleetLostError if no machine is left.
        """
        trial = _trial(program, function)
        launches, machine = self._pool.run(lambda machine: machine.profile(trial))
        return [MachineSamples(samples, machine) for samples in of_a_tile(program, launches)]

    def time_in_turn(
        self, trials: Sequence[Trial], sampling: Sampling, rounds: int
    ) -> list[list[float] | TrialError]:
        """Return samples of each program, timed in turns on one machine, or its error.

        Raise UntimedError if no machine is left, or three were lost with these programs.
        """
        samples, _ = self._pool.run(lambda machine: machine.time_in_turn(trials, sampling, rounds))
        return samples

    def on_a_machine(self, measure: Callable[[Machine], T]) -> T:
        """Call ``measure`` with a machine that does nothing else; with another one if that is lost.

        Raise UntimedError if no machine is left, or three were lost.
        """
        return self._pool.run(measure)[0]

    def renew(self, machine: Machine) -> None:
        """Replace the processes on a lent machine by fresh ones.

        Raise LostError if no server can be had for them.
        """
        self._pool.renew(machine)

    def launch_overhead(self) -> list[float]:
        """Return zero: the executor's spans of launches do not include its own calls."""
        return [0.0]

    def close(self) -> None:
        """Give the servers back."""
        self._finalizer()


def _trial(program: Program, function: Function) -> Trial:
    return Trial(program_to_json(program), tuple(function(symbol) for symbol in program.kernels))
