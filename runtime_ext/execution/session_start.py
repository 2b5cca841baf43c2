"""Check the arguments of a session, and make its memory and executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from runtime_ext.execution.executor import Executor, Memory
from runtime_ext.execution.ports import Port
from runtime_ext.native_errors import SessionError
from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.open_plan import OpenMemoryPlan, check_buffers
from tvm_ios.program.memory_plan import MemoryPlan, check_plan
from tvm_ios.program.program import Program, ProgramError, Role

#: Names of executors; see :class:`runtime_ext.execution.session.Session`.
ExecutorName = Literal["native", "reference", "poisoning", "cuda", "cuda-streams"]


def start(
    program: Program,
    functions: Mapping[str, Any],
    constants: Mapping[str, Array],
    plan: MemoryPlan | OpenMemoryPlan | None,
    executor: ExecutorName,
    device: int,
    pin: bool | None,
    seed: int,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
) -> tuple[Memory, Executor]:
    """Return the memory and the executor of a program; parameters as of the session."""
    if isinstance(plan, OpenMemoryPlan):
        from runtime_ext.execution.open_program import open_memory

        opened = open_memory(
            program, functions, constants, plan, executor, pin, seed, inputs, outputs
        )
        return opened, opened
    if executor in ("cuda", "cuda-streams"):
        from runtime_ext.cuda.executor import run_on_device

        captured = executor == "cuda"
        return run_on_device(program, functions, constants, plan, device, captured=captured)
    # Imported here: an installation for GPUs may lack tvm-ffi.
    from runtime_ext.execution.host_memory import HostMemory
    from runtime_ext.execution.native_executor import NativeExecutor
    from runtime_ext.execution.reference import ReferenceExecutor

    memory = HostMemory(program, constants, plan)
    if executor == "native":
        return memory, NativeExecutor(program, functions, memory.tensors, pin=bool(pin))
    poison = memory.arrays if executor == "poisoning" else None
    return memory, ReferenceExecutor(program, functions, memory.tensors, seed=seed, poison=poison)


def check_session_plan(
    program: Program, plan: MemoryPlan | OpenMemoryPlan | None, ports: Sequence[Port]
) -> None:
    """Refuse a plan of another program, and one that places a port's buffer in the arena."""
    if plan is None:
        return
    if isinstance(plan, OpenMemoryPlan) != bool(program.symbols):
        raise ProgramError("the memory plan and the program are not both of open dimensions")
    if isinstance(plan, OpenMemoryPlan):
        check_buffers(program, plan)
        planned = frozenset(plan.buffers)
    else:
        check_plan(program, plan)
        planned = frozenset(plan.offsets)
    numbers = {buffer.name: number for number, buffer in enumerate(program.buffers)}
    for port in ports:
        if program.whole_of(numbers[port.buffer]) in planned:
            raise SessionError(
                f"{port.name!r} lies in buffer {port.buffer!r}, whose memory others may take"
            )


def check_constants(program: Program, constants: Mapping[str, Array]) -> None:
    """Require that each constant is given and has its buffer's shape and type."""
    for buffer in program.buffers:
        if buffer.role is not Role.CONSTANT:
            continue
        if buffer.name not in constants:
            raise SessionError(f"constant {buffer.name!r} of the program was not given")
        array = np.asarray(constants[buffer.name])
        if (array.shape, str(array.dtype)) != (buffer.type.shape, buffer.type.dtype):
            raise SessionError(
                f"constant {buffer.name!r} is {array.dtype}{list(array.shape)}, not "
                f"{buffer.type.dtype}{list(buffer.type.shape)}"
            )
