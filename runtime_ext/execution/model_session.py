"""A session of a model over a memory and an executor, whatever runs it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from runtime_ext.execution.executor import Executor, Memory, ReservingMemory, Span
from runtime_ext.execution.ports import Port, State, find_port, named_values, port_value, ports_at
from runtime_ext.execution.session_pool import SessionWithWorkers
from runtime_ext.native_errors import SessionError
from tvm_ios.files.array_files import Array


class ModelSession(SessionWithWorkers):
    """Runs one model. Not re-entrant: one thread at a time, and a second one is refused.

    Parameters
    ----------
    inputs, outputs
        The inputs and outputs that a user sets and reads, in order.
    memory, executor
        The memory that has their buffers, and the executor that runs the model over it.
    states
        The outputs that are inputs of the next run.
    exchanged
        The states whose two buffers the memory exchanges, by default all; others are copied.
    workers, pin
        As of :class:`runtime_ext.execution.session.Session`.
    """

    def __init__(
        self,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        memory: Memory,
        executor: Executor,
        *,
        states: tuple[State, ...] = (),
        exchanged: tuple[State, ...] | None = None,
        workers: int = 1,
        pin: bool | None = None,
    ) -> None:
        super().__init__([port.name for port in inputs], workers, pin)
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self._input_ports = {port.name: port for port in self.inputs}
        self._unset = set(self._input_ports)
        self._ran = False
        self._one_thread = OneThread()
        self._memory, self._executor = memory, executor
        carried = states if exchanged is None else exchanged
        self._states = states
        #: The names of inputs that are states.
        self.state_inputs = frozenset(state.input.name for state in states)
        self._carried = tuple((s.output.buffer, s.input.buffer) for s in carried)
        self._copied = tuple((s.output.buffer, s.input.buffer) for s in states if s not in carried)
        #: Buffers of states that were set since the last run.
        self._given: set[str] = set()
        if states:
            self.reset_states()

    def set_input(self, name: str | None = None, value: Any = None, /, **values: Any) -> None:
        """Copy inputs in: ``set_input("x", array)``, ``set_input(x=array)``.

        Parameters
        ----------
        name, value
            One input; ``None`` names the only one.
        values
            Inputs by name.

        Raises
        ------
        SessionError
            If there is no such input, or its shape or type differs.
        """
        with self._one_thread:
            for key, content in named_values(name, value, values, self._input_ports).items():
                port = self._input_ports.get(key) or find_port(self.inputs, key, "input")
                self._write(port, port_value(port, content))

    def reset_states(self) -> None:
        """Set all states to zeros: the next run begins with these, or with inputs set before it.

        Raises
        ------
        SessionError
            If there are none.
        """
        if not self._states:
            raise SessionError("there are no states: bind outputs to inputs with states=")
        with self._one_thread:
            for state in self._states:
                self._write(state.input, np.zeros(state.input.shape, state.input.dtype))

    def run(self, /, **inputs: Any) -> None:
        """Run once, after setting the inputs given; inputs set before stay.

        Raises
        ------
        SessionError
            If an input was never set, or as :meth:`set_input`.
        KernelError
            If a kernel fails; the session can run again.
        """
        if inputs:
            self.set_input(**inputs)
        with self._one_thread:
            self._begin()
            self._executor.run()
            self._ran = True

    def get_output(self, which: int | str = 0) -> Array:
        """Return a copy of an output of the last run, by place or name.

        Raises
        ------
        SessionError
            If there is no such output, or nothing has run.
        """
        with self._one_thread:
            if isinstance(which, str):
                port = find_port(self.outputs, which, "output")
            elif -len(self.outputs) <= which < len(self.outputs):
                port = self.outputs[which]
            else:
                raise SessionError(f"there is no output {which}; there are {len(self.outputs)}")
            if not self._ran:
                raise SessionError(f"output {port.name!r} is not known before a complete run")
            return self._memory.read(port.buffer)

    def benchmark(self, number: int = 1, repeat: int = 10) -> list[float]:
        """Return seconds a run: ``repeat`` samples, each the mean of ``number`` runs.

        Raises as :meth:`run`.
        """
        if number < 1 or repeat < 1:
            raise SessionError("a benchmark needs at least one run and one sample")
        with self._one_thread:
            self._begin()
            samples = self._executor.benchmark(number, repeat)
            self._ran = True
        return samples

    def profile(self) -> tuple[Span, ...]:
        """Run once, and return the times of every launch, lane by lane.

        Raises as :meth:`run`.
        """
        with self._one_thread:
            self._begin()
            spans = self._executor.profile()
            self._ran = True
        return spans

    def random_inputs(
        self, seed: int = 0, shapes: Mapping[str, Sequence[int]] | None = None
    ) -> dict[str, Array]:
        """Return random inputs by name: normal numbers, or zeros and ones for integers.

        Parameters
        ----------
        seed
            Seed of the generator.
        shapes
            The shapes of some inputs, by name; those of open dimensions are else at their hints.

        Raises
        ------
        SessionError
            If an input never has this shape.
        """
        return random_values(ports_at(self.inputs, shapes or {}), seed)

    def _reserve(self) -> None:
        with self._one_thread:
            if isinstance(self._memory, ReservingMemory):
                self._memory.reserve()

    def close(self) -> None:
        """End the executor's threads and workers; the last outputs can still be read."""
        super().close()
        self._executor.close()

    def _write(self, port: Port, value: Array) -> None:
        self._memory.write(port.buffer, value)
        self._unset.discard(port.name)
        if port.name in self.state_inputs:
            self._given.add(port.buffer)

    def _begin(self) -> None:
        if self._unset:
            raise SessionError(f"input {min(self._unset)!r} was never set")
        # After a failed run no state is carried: inputs keep their values.
        if self._states:
            if self._ran:
                self._carry()
            self._given.clear()
        self._ran = False

    def _carry(self) -> None:
        """Set the inputs that are states to the last run's outputs, if not set since then."""
        memory, given = self._memory, self._given
        carried, copied = self._carried, self._copied
        if given:
            carried = tuple(pair for pair in carried if pair[1] not in given)
            copied = tuple(pair for pair in copied if pair[1] not in given)
        # Read the outputs that are inputs passed on before those inputs are written.
        values = [(target, memory.read(source)) for source, target in copied]
        if carried:
            memory.carry(carried)
        for target, value in values:
            memory.write(target, value)


def random_values(ports: Sequence[Port], seed: int = 0) -> dict[str, Array]:
    """Return random values of ports by name: normal numbers, or zeros and ones for integers."""
    generator = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    for port in ports:
        if np.issubdtype(np.dtype(port.dtype), np.floating):
            value = generator.standard_normal(port.shape)
        else:
            value = generator.integers(0, 2, port.shape)
        values[port.name] = np.asarray(value).astype(port.dtype)
    return values


class OneThread:
    """A lock that refuses a second thread; a generator-based one would take a microsecond more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise SessionError(
                "this session is in use by another thread; make one session a thread"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()
