"""A session of a whole program on a machine of a fleet: inputs are sent, outputs come back."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from tvm.runtime import tensor

from runtime_ext.fleet.machine import Machine
from tvm_ios.files.array_files import Array

#: Seconds that a first run may take; later ones may take a multiple of it, plus seconds.
_FIRST_RUN_SECONDS, _MARGIN, _PATIENCE = 60.0, 10.0, 10.0


class ProgramSession:
    """A program on a lent machine; see :class:`tvm_ios.contest.contest.AnySession`.

    ``folder`` has the executable here. The constructor and all methods raise LostError if the
    machine does not answer, and TrialError if the program fails there.
    """

    def __init__(self, machine: Machine, folder: Path) -> None:
        self._there = there = machine.connection
        self._module: Any = machine.open_program(folder)
        self._time: Any = there.hold(
            there.call(
                _FIRST_RUN_SECONDS,
                lambda: self._module.time_evaluator("run", there.cpu, number=1, repeat=1),
            )
        )
        self._limit = _FIRST_RUN_SECONDS

    def run(self, /, **inputs: Any) -> float:
        """Run twice; return the seconds of the second run, by the machine's own clock."""
        for name, value in inputs.items():
            self._there.call(_FIRST_RUN_SECONDS, partial(self._set_input, name, value))
        seconds = self._there.call(self._limit, lambda: float(self._time().results[0]))
        self._limit = _PATIENCE + _MARGIN * 2 * seconds
        return seconds

    def get_output(self, which: int, /) -> Array:
        """Return a copy of an output of the last run."""
        return self._there.call(
            _FIRST_RUN_SECONDS, lambda: self._module["get_output"](which).numpy()
        )

    def _set_input(self, name: str, value: Array) -> None:
        # Made within the call, so that the remote tensor is dropped while the machine answers.
        self._module["set_input"](name, tensor(value, self._there.cpu))

    def close(self) -> None:
        """Release the program's memory and threads on the machine."""
        self._there.call(self._limit, lambda: self._module["close"]())
        # Drop these while the machine answers: destructors of remote objects wait for it.
        self._module = self._time = None
