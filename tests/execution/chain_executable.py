"""An executable of four equal units in a chain, which a schedule tells of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tvm
from tvm.script import tirx as T

from runtime_ext.execution.executable import Executable
from runtime_ext.execution.ports import Port
from runtime_ext.machine.cpu_features import required_features
from tests.execution.small_executable import SHAPE, TARGET
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.arena.planner import plan_memory
from tvm_ios.program.lower import lower
from tvm_ios.program.program import BufferType, PhaseCall, UnitCode
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import sequential_stages


@T.prim_func
def scale_add(
    x: T.Buffer((8, 4), "float32"),
    w: T.Buffer((8, 4), "float32"),
    y: T.Buffer((8, 4), "float32"),
    begin: T.int32,
    end: T.int32,
):
    T.func_attr({"global_symbol": "scale_add", "tirx.noalias": True})
    for i in T.serial(end - begin):
        for j in T.serial(4):
            y[begin + i, j] = x[begin + i, j] * w[begin + i, j] + T.float32(1)


def chain_executable(folder: Path) -> Executable:
    """Two of the units have equal weights; their library is written into a folder."""
    library = folder / "k.so"
    module = tvm.IRModule({"scale_add": scale_add})
    tvm.compile(module, target=tvm.target.Target(TARGET)).export_library(str(library))
    tensors = (
        *(Tensor(f"t{i}", SHAPE) for i in range(5)),
        *(Tensor(f"w{i}", SHAPE, constant=True) for i in range(4)),
    )
    operators = tuple(Operator(f"u{i}", "scale_add", (i, 5 + i), (i + 1,)) for i in range(4))
    graph = OpGraph("chain", operators, tensors, (0,), (4, 1))
    kind = BufferType(SHAPE)
    code = UnitCode((kind,) * 3, 1, (), (PhaseCall("scale_add", 8, (0, 1, 2)),))
    schedule = Schedule(graph.fingerprint, sequential_stages(graph), policy="sequential")
    weights = np.random.default_rng(0).standard_normal((3, *SHAPE)).astype("float32")
    program = lower(graph, schedule, dict.fromkeys(range(4), code), lanes=2)
    names = ("u0/1", "u1/1", "u2/1", "u3/1")
    return Executable(
        program=program,
        plan=plan_memory(program).plan,
        kernels=library,
        constants=dict(zip(names, (*weights, weights[0].copy()), strict=True)),
        inputs=(Port("image", "t0", SHAPE, "float32"),),
        outputs=(Port("last", "t4", SHAPE, "float32"), Port("first", "t1", SHAPE, "float32")),
        schedule=schedule.to_json(graph),
        target="llvm -mcpu=x86-64-v2",
        features=required_features(TARGET),
        fingerprint=graph.fingerprint,
        notes={"latency_ms": 1.5, "tuple": (1, 2)},
    )
