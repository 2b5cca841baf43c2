"""A small executable for a GPU, whose kernel the stand-in can run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from runtime_ext.cuda.machine_code.launchable import Launchable, write_kernels
from runtime_ext.execution.executable import Executable
from runtime_ext.execution.ports import Port
from tests.random_units import VECTOR
from tvm_ios.files.array_files import Array
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.arena.planner import plan_memory
from tvm_ios.program.program import Buffer, KernelUse, Launch, Program, Role, Wait
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import sequential_stages

#: The executable's own is not asked for when it is run.
_TENSORS = (Tensor("a", (1,)), Tensor("b", (1,)))
_GRAPH = OpGraph("model", (Operator("u", "unit", (0,), (1,)),), _TENSORS, (0,), (1,))
SCHEDULE = Schedule(_GRAPH.fingerprint, sequential_stages(_GRAPH), policy="sequential").to_json(
    _GRAPH
)


def add_two(folder: Path, cubin: bytes, arch: str = "sm_90") -> Executable:
    """It adds two to x on one stream and to a constant on another one."""
    buffers = (
        Buffer("x", VECTOR, Role.INPUT),
        Buffer("c", VECTOR, Role.CONSTANT),
        Buffer("h0", VECTOR, Role.INTERMEDIATE),
        Buffer("h1", VECTOR, Role.INTERMEDIATE),
        Buffer("y", VECTOR, Role.OUTPUT),
        Buffer("d", VECTOR, Role.OUTPUT),
    )
    program = Program(
        (
            (Launch(0, (0, 2), 0, 1, 0), Launch(0, (2, 4), 0, 1, 1)),
            (Launch(0, (1, 3), 0, 1, 2), Wait(0, 1), Launch(0, (3, 5), 0, 1, 3)),
        ),
        ("step",),
        buffers,
        ("a", "b", "c", "d"),
        (KernelUse(1, 2, (1,)),),
    )
    kernels = {"step": Launchable("step", (1, 1, 1), (32, 1, 1), 0, cubin)}
    return executable(
        folder,
        program,
        kernels,
        {"c": np.arange(12)},
        {"x": "input", "y": "first", "d": "second"},
        arch,
    )


def executable(
    folder: Path,
    program: Program,
    kernels: Mapping[str, Launchable],
    constants: Mapping[str, Array],
    names: Mapping[str, str] | None = None,
    arch: str = "sm_90",
) -> Executable:
    """An executable of a program; ``names`` are what its inputs and outputs are called."""
    file = folder / "made.safetensors"
    write_kernels(file, arch, kernels)

    def ports(role: Role) -> tuple[Port, ...]:
        return tuple(
            Port(names[b.name] if names else b.name, b.name, b.type.shape, b.type.dtype)
            for b in program.buffers
            if b.role is role
        )

    return Executable(
        program=program,
        plan=plan_memory(program).plan,
        kernels=file,
        constants=constants,
        inputs=ports(Role.INPUT),
        outputs=ports(Role.OUTPUT),
        schedule=SCHEDULE,
        target='{"kind": "cuda", "arch": "sm_90"}',
        features=(),
        fingerprint="none",
        arch=arch,
    )
