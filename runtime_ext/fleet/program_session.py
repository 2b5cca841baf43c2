"""Whole programs on a machine of a fleet: their inputs go there, their outputs come back."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from runtime_ext.fleet.machine import Machine
from tvm_ios.files.array_files import Array

#: Seconds that a first run may take, and by how much others may exceed it.
_FIRST_RUN_SECONDS, _MARGIN, _PATIENCE = 60.0, 10.0, 10.0


class ProgramSession:
    """A program on a machine; see :class:`tvm_ios.contest.contest.AnySession`.

    Parameters
    ----------
    machine
        The machine, lent to nobody else.
    folder
        The executable here.

    Raises
    ------
    LostError
        If the machine does not answer; so do all methods.
    TrialError
        If the program fails there; so do all methods.
    """

    def __init__(self, machine: Machine, folder: Path) -> None:
        self._machine = machine
        self._module: Any = machine.open_program(folder)
        self._time: Any = None
        self._limit = _FIRST_RUN_SECONDS

    def run(self, /, **inputs: Any) -> float:
        """Run twice; gives the seconds of the second run, by the machine's own clock."""
        for name, value in inputs.items():
            there = self._machine.tensor(value)
            self._machine.call(self._limit, partial(self._module["set_input"], name, there))
        if self._time is None:
            self._time = self._machine.call(
                self._limit,
                lambda: self._module.time_evaluator("run", self._machine.cpu, number=1, repeat=1),
            )
        seconds = float(self._machine.call(self._limit, lambda: self._time().results[0]))
        self._limit = _PATIENCE + _MARGIN * 2 * seconds
        return seconds

    def get_output(self, which: int, /) -> Array:
        """A copy of an output of the last run."""
        return self._machine.call(
            _FIRST_RUN_SECONDS, lambda: self._module["get_output"](which).numpy()
        )

    def close(self) -> None:
        """Release its memory and threads there."""
        self._machine.call(self._limit, lambda: self._module["close"]())
