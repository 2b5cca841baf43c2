"""A session: a program with its buffers, ready to run."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from runtime_ext.execution.executor import Executor, Memory, Span
from runtime_ext.execution.ports import (
    NO_STATES,
    Port,
    State,
    bound_states,
    buffer_ports,
    check_ports,
    exchangeable,
    find_port,
    named_values,
    port_value,
)
from runtime_ext.execution.session_pool import PoolOnDemand, Request, Result, SessionPool
from runtime_ext.execution.session_start import (
    ExecutorName,
    check_constants,
    check_session_plan,
    start,
)
from runtime_ext.native_errors import SessionError
from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.planner import plan_quickly
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.one_lane import on_one_lane
from tvm_ios.program.program import Program, Role


class Session:
    """Runs one program. Not re-entrant: one thread at a time, and a second one is refused.

    Parameters
    ----------
    program
        The program to run.
    functions
        For each kernel symbol a function of buffers, ``begin`` and ``end``; on a GPU a
        :class:`runtime_ext.cuda.machine_code.launchable.Launchable`.
    constants
        For each constant buffer, by name, its content. Equal constants of all sessions of a
        process share memory.
    inputs, outputs
        The inputs and outputs that a user sets and reads, in order. Default: the program's input
        and output buffers under their own names.
    plan
        Where intermediate buffers and scratch lie in one arena; without it each has memory of
        its own.
    executor
        ``"native"`` runs each lane in a thread of its own, ``"reference"`` interleaves them
        at random on the calling thread, ``"poisoning"`` does so too and overwrites intermediate
        buffers and scratch whenever nothing may need them. ``"cuda"`` runs each lane on a stream
        of a GPU, captured once into a graph, and ``"cuda-streams"`` without a graph.
    device
        Number of the GPU.
    pin
        Bind lanes to CPUs (native only), by default not; and the workers of :meth:`run_many`, by
        default if there are as many as CPUs.
    seed
        Seed of the reference executor's choices.
    workers
        How many requests :meth:`run_many` runs at once; by default one a lane, on a GPU one.
    states
        For outputs, by name, the inputs that they are in the next run, unless that input is set
        before it; at first zeros. On a CPU nothing is copied: the two exchange their memory.

    Raises
    ------
    SessionError
        If a constant is missing, something does not have the shape of its buffer, an input or
        output lies in the arena, or a state does not fit.
    ProgramError
        If the plan is of another program.
    CudaError
        If there is no such GPU, or it cannot hold or run the program.
    """

    def __init__(
        self,
        program: Program,
        functions: Mapping[str, Any],
        constants: Mapping[str, Array],
        inputs: Sequence[Port] | None = None,
        outputs: Sequence[Port] | None = None,
        *,
        plan: MemoryPlan | None = None,
        executor: ExecutorName = "native",
        device: int = 0,
        pin: bool | None = None,
        seed: int = 0,
        workers: int | None = None,
        states: Mapping[str, str] = NO_STATES,
    ) -> None:
        self.program = program
        self.inputs = tuple(buffer_ports(program, Role.INPUT) if inputs is None else inputs)
        self.outputs = tuple(buffer_ports(program, Role.OUTPUT) if outputs is None else outputs)
        check_ports(program, (*self.inputs, *self.outputs))
        missing = [symbol for symbol in program.kernels if symbol not in functions]
        if missing:
            raise SessionError(f"kernel {missing[0]!r} of the program is in no library given")
        check_session_plan(program, plan, (*self.inputs, *self.outputs))
        check_constants(program, constants)
        bound = bound_states(states, self.inputs, self.outputs)
        self._begin_with(*start(program, functions, constants, plan, executor, device, pin, seed))
        self._bind_states(bound, exchangeable(program, bound))
        self._plan, self._on_cpu = plan, not executor.startswith("cuda")
        self._again = partial(
            Session,
            functions=functions,
            constants=constants,
            inputs=self.inputs,
            outputs=self.outputs,
            executor=executor,
            device=device,
            pin=pin,
            seed=seed,
        )
        if workers is None:
            workers = len(program.lanes) if self._on_cpu else 1
        self._open_many_with(workers, pin)

    def _begin_with(self, memory: Memory, executor: Executor) -> None:
        """Set the memory of the inputs and outputs, and the executor."""
        self._input_ports = {port.name: port for port in self.inputs}
        self._unset = set(self._input_ports)
        self._ran = False
        self._one_thread = OneThread()
        self._memory, self._executor = memory, executor
        self._bind_states(())

    def _bind_states(
        self, states: tuple[State, ...], exchanged: tuple[State, ...] | None = None
    ) -> None:
        """Set the states, and those that the memory carries, by default all; copy the rest."""
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

    def _open_many_with(self, workers: int, pin: bool | None = None) -> None:
        """Set the number of workers, and whether they are bound to CPUs."""
        self.workers, self.pin = workers, pin
        names = [port.name for port in self.inputs]
        self._many = PoolOnDemand(self.for_worker, names, workers, pin)

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

    def run_many(self, requests: Iterable[Request], *, workers: int | None = None) -> list[Result]:
        """Run many requests, each on one of several workers; return their outputs in order.

        Each worker is a thread with buffers of its own, made by the first call; this session's
        inputs and outputs are not touched.

        Parameters
        ----------
        requests
            Each has all inputs of the model by name.
        workers
            As of :class:`Session`; by default as many as there are.

        Raises
        ------
        RequestsError
            If requests failed, when all have run; it has the outputs of the others.
        """
        return self.pool(workers).run_many(requests)

    def pool(self, workers: int | None = None) -> SessionPool:
        """Return the workers of :meth:`run_many`, which take single requests as well."""
        return self._many.pool(workers)

    def for_worker(self, workers: int) -> Session:
        """Open a session of the same program, kernels and constants for one of ``workers`` workers.

        With several workers it runs all of the program on one lane.
        """
        if workers == 1 or not self._on_cpu:
            return self._again(self.program, plan=self._plan)
        program = on_one_lane(self.program)
        # A smaller arena stays in a worker's cache.
        plan = self._plan and plan_quickly(program).plan
        return self._again(program, plan=plan, pin=False)

    def random_inputs(self, seed: int = 0) -> dict[str, Array]:
        """Return random inputs by name: normal numbers, or zeros and ones for integers."""
        return random_values(self.inputs, seed)

    def close(self) -> None:
        """End the executor's threads and workers; the last outputs can still be read."""
        self._many.close()
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
