"""A session: a program with its buffers, ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from runtime_ext.execution.model_session import ModelSession
from runtime_ext.execution.ports import (
    NO_STATES,
    Port,
    bound_states,
    buffer_ports,
    check_ports,
    exchangeable,
    own_memory,
)
from runtime_ext.execution.session_start import (
    ExecutorName,
    check_constants,
    check_session_plan,
    start,
)
from runtime_ext.native_errors import SessionError
from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.open_plan import OpenMemoryPlan, plan_open
from tvm_ios.program.arena.planner import plan_quickly
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.one_lane import on_one_lane
from tvm_ios.program.program import Program, Role


class Session(ModelSession):
    """Runs one program. Not re-entrant: one thread at a time, and a second one is refused.

    Inputs of an open program have any shapes in its range, which have to agree when it runs;
    outputs have those of the last run.

    Parameters
    ----------
    program
        The program to run.
    functions
        For each kernel symbol a function of buffers, scalars, ``begin`` and ``end``; on a GPU a
        :class:`runtime_ext.cuda.machine_code.launchable.Launchable`.
    constants
        For each constant buffer, by name, its content. Equal constants of all sessions of a
        process share memory.
    inputs, outputs
        The inputs and outputs that a user sets and reads, in order. Default: the program's input
        and output buffers under their own names.
    plan
        Where intermediate buffers and scratch lie in one arena; without it each has memory of
        its own. An open program always has a plan, by default that of
        :func:`tvm_ios.program.arena.open_plan.plan_open`.
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
        plan: MemoryPlan | OpenMemoryPlan | None = None,
        executor: ExecutorName = "native",
        device: int = 0,
        pin: bool | None = None,
        seed: int = 0,
        workers: int | None = None,
        states: Mapping[str, str] = NO_STATES,
    ) -> None:
        self.program = program
        ports_in = tuple(buffer_ports(program, Role.INPUT) if inputs is None else inputs)
        ports_out = tuple(buffer_ports(program, Role.OUTPUT) if outputs is None else outputs)
        check_ports(program, (*ports_in, *ports_out))
        missing = [symbol for symbol in program.kernels if symbol not in functions]
        if missing:
            raise SessionError(f"kernel {missing[0]!r} of the program is in no library given")
        if plan is None and program.symbols:
            plan = plan_open(program)
        check_session_plan(program, plan, (*ports_in, *ports_out))
        check_constants(program, constants)
        bound = bound_states(states, ports_in, ports_out)
        memory, runner = start(
            program, functions, constants, plan, executor, device, pin, seed, ports_in, ports_out
        )
        self._plan, self._on_cpu = plan, not executor.startswith("cuda")
        self._again = partial(
            Session,
            functions=functions,
            constants=constants,
            inputs=ports_in,
            outputs=ports_out,
            executor=executor,
            device=device,
            pin=pin,
            seed=seed,
        )
        if workers is None:
            workers = len(program.lanes) if self._on_cpu else 1
        super().__init__(
            ports_in,
            ports_out,
            memory,
            runner,
            states=bound,
            exchanged=() if program.symbols else exchangeable(program, bound),
            workers=workers,
            pin=pin,
        )

    def over_callers_memory(self) -> Callable[..., None]:
        """Return a function that runs the program over its caller's memory, without copies.

        It takes the address of each input and then of each output, in order; where kernels may
        read at these, :func:`runtime_ext.execution.buffers.fits_kernels` says. From then on neither
        :meth:`set_input` nor :meth:`get_output` may be used.

        Raises
        ------
        SessionError
            If the program's dimensions are open, or an output has no memory of its own.
        """
        memory, executor = self._memory, self._executor
        ports = (*self.inputs, *self.outputs)
        buffers = {port.buffer for port in ports}
        alone = len(buffers) == len(ports)
        own = own_memory(self.program, self.outputs)
        # Not at the top: an installation for GPUs may lack tvm-ffi.
        from runtime_ext.execution.host_memory import HostMemory

        if not isinstance(memory, HostMemory) or not alone or len(own) < len(self.outputs):
            raise SessionError("the program does not run over its caller's memory")
        place = memory.placement([port.buffer for port in ports])

        def run(*addresses: int) -> None:
            with self._one_thread:
                place(*addresses)
                executor.run()

        return run

    def for_worker(self, workers: int) -> Session:
        """Open a session of the same program, kernels and constants for one of ``workers`` workers.

        With several workers it runs all of the program on one lane.
        """
        if workers == 1 or not self._on_cpu:
            return self._again(self.program, plan=self._plan)
        program = on_one_lane(self.program)
        # A smaller arena stays in a worker's cache.
        plan = self._plan
        if isinstance(plan, OpenMemoryPlan):
            plan = plan_open(program)
        elif plan is not None:
            plan = plan_quickly(program).plan
        return self._again(program, plan=plan, pin=False)
