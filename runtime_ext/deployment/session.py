"""Run the program of a deployment that serves the given shapes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime_ext.deployment.choice import Shapes, all_shapes, choose, verdicts
from runtime_ext.deployment.machine import Machine
from runtime_ext.execution.executor import Span
from runtime_ext.execution.model_session import OneThread, random_values
from runtime_ext.execution.ports import Port, find_port, named_values, port_value, values_at
from runtime_ext.execution.session import Session
from runtime_ext.execution.session_pool import SessionWithWorkers
from runtime_ext.native_errors import SessionError
from tvm_ios.deployment.entry import Entry
from tvm_ios.files.array_files import Array
from tvm_ios.shapes.extent import at_values

if TYPE_CHECKING:
    from runtime_ext.execution.tailed_session import TailedSession


#: Combinations of shapes of which a session keeps which program serves them.
_KEPT = 256


class DeploymentSession(SessionWithWorkers):
    """Runs a model on inputs of any shapes that a deployment serves; one thread at a time.

    Programs are opened when they are first needed and stay open. Their constants share memory.
    Where a program has more rows than are given, the last one is repeated, and outputs are cut to
    the rows that were given.

    Parameters
    ----------
    entries
        The programs of the deployment.
    machine
        The machine for which a program is chosen.
    open_entry
        Opens a session of an entry.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        machine: Machine,
        open_entry: Callable[[Entry], Session | TailedSession],
    ) -> None:
        self._entries, self._machine, self._open = entries, machine, open_entry
        self._sessions: dict[str, Session | TailedSession] = {}
        self._values: dict[str, Array] = {}
        #: By entry and input the array that its session was given last.
        self._written: dict[tuple[str, str], Array] = {}
        #: The program of each of the last combinations of shapes that were served.
        self._chosen: dict[frozenset[tuple[str, tuple[int, ...]]], Entry] = {}
        self._entry: Entry | None = None
        self._shapes: Shapes = {}
        self._rows: int | None = None
        self._one_thread = OneThread()
        names = [port.name for port in entries[0].inputs] if entries else []
        self._opening = threading.Lock()
        super().__init__(names, machine.lanes)

    @property
    def entry(self) -> Entry:
        """The entry of the last run; SessionError if there was none."""
        if self._entry is None:
            raise SessionError("which program is taken is not known before inputs are set")
        return self._entry

    def choose(self, shapes: Shapes) -> Entry:
        """Return the entry that runs for these shapes of all inputs.

        Raise DeploymentError, which names the entries, if none fits.
        """
        return choose(self._entries, self._machine, shapes)

    def set_input(self, name: str | None = None, value: Any = None, /, **values: Any) -> None:
        """Keep copies of inputs: ``set_input("x", array)``, ``set_input(x=array)``.

        Parameters
        ----------
        name, value
            One input; ``None`` names the only one.
        values
            Inputs by name, of any shapes: :meth:`run` checks them together.

        Raises
        ------
        SessionError
            If there is no such input, or no program has its type.
        """
        with self._one_thread:
            ports = {port.name: port for entry in self._entries for port in entry.inputs}
            given = named_values(name, value, values, list(ports))
            # Copies, so that whoever gave them may change them.
            self._values |= {
                key: np.array(
                    port_value(
                        find_port(ports.values(), key, "input"),  # pyright: ignore[reportArgumentType]
                        content,
                        any_shape=True,
                    )
                )
                for key, content in given.items()
            }

    def run(self, /, **inputs: Any) -> None:
        """Run once, after setting the inputs given; inputs set before stay.

        Raises
        ------
        DeploymentError
            If no program serves these shapes here; names the entries.
        SessionError, KernelError
            As :meth:`runtime_ext.execution.session.Session.run`.
        """
        if inputs:
            self.set_input(**inputs)
        with self._one_thread:
            self._ready().run()

    def get_output(self, which: int | str = 0) -> Array:
        """Return a copy of an output of the last run, as :meth:`Session.get_output` does."""
        with self._one_thread:
            value = self._session().get_output(which)
            return value if self._rows is None else value[: self._rows]

    def benchmark(self, number: int = 1, repeat: int = 10) -> list[float]:
        """Return seconds a run, as :meth:`runtime_ext.execution.session.Session.benchmark`."""
        with self._one_thread:
            return self._ready().benchmark(number, repeat)

    def profile(self) -> tuple[Span, ...]:
        """Run once, and return the times of every launch; raises as :meth:`run`."""
        with self._one_thread:
            return self._ready().profile()

    def _reserve(self) -> None:
        """Open the programs for ranges that may be taken, and let them reserve their memory."""
        with self._one_thread:
            for entry in self._entries:
                # Of the programs for one range a machine takes one.
                alike = [other for other in self._entries if other.inputs == entry.inputs]
                judged = verdicts(alike, self._machine) if entry.is_of_range else []
                if any(v.taken and e is entry for e, v in zip(alike, judged, strict=False)):
                    self._opened(entry).reserve()

    def for_worker(self, workers: int) -> DeploymentSession:
        """Open a session of the same programs for one of ``workers`` workers."""
        return DeploymentSession(
            self._entries,
            self._machine,
            lambda entry: self._opened(entry).for_worker(workers),
        )

    def _opened(self, entry: Entry) -> Session | TailedSession:
        """Return the session of an entry, opened once; any thread may call this."""
        with self._opening:
            if entry.id not in self._sessions:
                self._sessions[entry.id] = self._open(entry)
            return self._sessions[entry.id]

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs of the program of the last run, with the rows that were given.

        Open dimensions are as they were given.
        """
        return tuple(map(self._cut, self._ports()[0]))

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs of the program of the last run, with the rows that were given.

        Open dimensions are those of that run.
        """
        return tuple(map(self._cut, self._ports()[1]))

    def random_inputs(self, seed: int = 0, shapes: Shapes | None = None) -> dict[str, Array]:
        """Return random inputs, as :meth:`runtime_ext.execution.session.Session.random_inputs`.

        Parameters
        ----------
        seed
            Of the random numbers.
        shapes
            The shape of each input, or of some if a program for a range has these; by default
            those of the smallest batch that this machine runs, or the middle of a range.

        Raises
        ------
        DeploymentError
            If no program serves these shapes here, or any.
        """
        if shapes is None:
            shapes = choose(self._entries, self._machine).shapes
        shapes = all_shapes(self._entries, shapes)
        types = {port.name: port.dtype for port in self.choose(shapes).inputs}
        return random_values([Port(n, "", shapes[n], dtype) for n, dtype in types.items()], seed)

    def close(self) -> None:
        """End the threads of all programs, and workers; the last outputs can still be read."""
        super().close()
        for session in self._sessions.values():
            session.close()

    def _cut(self, port: Port) -> Port:
        return port if self._rows is None else replace(port, shape=(self._rows, *port.shape[1:]))

    def _ports(self) -> tuple[Sequence[Port], Sequence[Port]]:
        """Return the inputs and outputs of the program of the last run, at its shapes."""
        session = self._session()
        if not self.entry.is_of_range:
            return session.inputs, session.outputs
        values = values_at(session.inputs, self._shapes)
        return at_values((tuple(session.inputs), tuple(session.outputs)), values)

    def _session(self) -> Session | TailedSession:
        return self._sessions[self.entry.id]

    def _ready(self) -> Session | TailedSession:
        """Choose the program for the inputs' shapes, set its inputs, and return its session."""
        shapes = {name: value.shape for name, value in self._values.items()}
        for port in self._entries[0].inputs if self._entries else ():
            if port.name not in shapes:
                raise SessionError(f"input {port.name!r} was never set")
        key = frozenset(shapes.items())
        taken = self._chosen.get(key) or self.choose(shapes)
        self._chosen[key] = taken
        if len(self._chosen) > _KEPT:
            del self._chosen[next(iter(self._chosen))]
        session = self._opened(taken)
        padded = not taken.is_of_range and shapes != taken.shapes
        for port in taken.inputs:
            value = self._values[port.name]
            if self._written.get((taken.id, port.name)) is not value:
                session.set_input(port.name, _padded(value, port.shape) if padded else value)
                self._written[taken.id, port.name] = value
        self._entry, self._shapes = taken, shapes
        self._rows = next(iter(shapes.values()))[0] if padded else None
        return session


def _padded(value: Array, shape: tuple[int, ...]) -> Array:
    """Return an array padded to a shape by repeating its last row (zeros might be divided by)."""
    return np.concatenate([value, np.repeat(value[-1:], shape[0] - len(value), axis=0)])
