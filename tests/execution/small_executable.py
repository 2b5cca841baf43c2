"""A small executable on two lanes, and changes to its files that keep the checksums right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.script import tirx as T

from runtime_ext.execution.executable import Executable
from runtime_ext.execution.packages.package import seal
from runtime_ext.execution.ports import Port
from runtime_ext.machine.cpu_features import required_features
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.happens_before import check_races
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Buffer, BufferType, KernelUse, Launch, Part, Program, Role, Wait
from tvm_ios.schedule.schedule import Schedule

#: What a package for a CPU holds.
FILES = [
    "SHA256SUMS",
    "kernels.so",
    "memory.json",
    "meta.json",
    "model.tvm_ios",
    "params.safetensors",
    "program.json",
    "schedule.json",
]
TARGET = {"kind": "llvm", "mcpu": "x86-64-v2"}
SHAPE = (8, 4)
IMAGE = np.arange(32, dtype="float32").reshape(SHAPE) / 7
STEPS = np.array([3], "int64")


@T.prim_func
def upper(
    x: T.Buffer((8, 4), "float32"),
    w: T.Buffer((8, 4), "float32"),
    y: T.Buffer((8, 4), "float32"),
    begin: T.int32,
    end: T.int32,
):
    T.func_attr({"global_symbol": "upper", "tirx.noalias": True})
    for i in T.serial(end - begin):
        for j in T.serial(4):
            y[begin + i, j] = x[begin + i, j] * w[begin + i, j]


@T.prim_func
def lower_half(
    x: T.Buffer((8, 4), "float32"), y: T.Buffer((8, 4), "float32"), begin: T.int32, end: T.int32
):
    T.func_attr({"global_symbol": "lower_half", "tirx.noalias": True})
    for i in T.serial(end - begin):
        for j in T.serial(4):
            y[4 + begin + i, j] = x[begin + i, j] - T.float32(1)


@T.prim_func
def finish(
    both: T.Buffer((8, 4), "float32"),
    steps: T.Buffer((1,), "int64"),
    y: T.Buffer((8, 4), "float32"),
    begin: T.int32,
    end: T.int32,
):
    T.func_attr({"global_symbol": "finish", "tirx.noalias": True})
    for i in T.serial(end - begin):
        for j in T.serial(4):
            y[begin + i, j] = both[7 - begin - i, j] + T.Cast("float32", steps[0])


IMAGE_TYPE = BufferType(SHAPE)
#: Two producers write into the halves of one buffer, on two lanes.
PROGRAM = Program(
    lanes=(
        (Launch(0, (0, 2, 4), 0, 4, 0), Wait(1, 1), Launch(2, (3, 1, 6), 0, 5, 2)),
        (
            Launch(1, (0, 5), 0, 4, 1),
            Wait(0, 1),
            Launch(2, (3, 1, 6), 5, 8, 2),
        ),
    ),
    kernels=("upper", "lower_half", "finish"),
    buffers=(
        Buffer("x", IMAGE_TYPE, Role.INPUT),
        Buffer("n", BufferType((1,), "int64"), Role.INPUT),
        Buffer("w", IMAGE_TYPE, Role.CONSTANT),
        Buffer("both", IMAGE_TYPE, Role.OUTPUT),
        Buffer("top", IMAGE_TYPE, Role.INTERMEDIATE, Part(3, 0, 0, 4)),
        Buffer("bottom", IMAGE_TYPE, Role.INTERMEDIATE, Part(3, 0, 4, 8)),
        Buffer("y", IMAGE_TYPE, Role.OUTPUT),
        Buffer("spare", BufferType((100,), "float64"), Role.SCRATCH),
    ),
    units=("first", "second", "third"),
    uses=(KernelUse(4, 3, (2,)), KernelUse(4, 2, (1,)), KernelUse(8, 3, (2,))),
)
WEIGHTS = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")


def small_executable(folder: Path) -> Executable:
    """Of three kernels of TVM's, whose library is written into a folder."""
    check_races(PROGRAM)
    library = folder / "k.so"
    module = tvm.IRModule({"upper": upper, "lower_half": lower_half, "finish": finish})
    tvm.compile(module, target=tvm.target.Target(TARGET)).export_library(str(library))
    return Executable(
        program=PROGRAM,
        plan=MemoryPlan(1024, {7: 192}),
        kernels=library,
        constants={"w": WEIGHTS},
        inputs=(Port("image", "x", SHAPE, "float32"), Port("steps", "n", (1,), "int64")),
        outputs=(Port("result", "y", SHAPE, "float32"), Port("inner", "both", SHAPE, "float32")),
        schedule=Schedule("any", (), policy="sequential").to_json(OpGraph("any", (), (), (), ())),
        target="llvm -mcpu=x86-64-v2",
        features=required_features(TARGET),
        fingerprint="0",
        notes={"latency_ms": 1e-07, "who": "ümläut \U0001f600", "many": [1e22, -0.0, None, True]},
    )


def change(saved: Path, file: str, edit: Callable[[Any], Any]) -> None:
    """Change a JSON file (or make it, from an empty object), and the checksums to match."""
    data = json.loads((saved / file).read_text()) if (saved / file).exists() else {}
    data = edit(data) or data
    (saved / file).write_text(json.dumps(data))
    seal(saved)


#: Offsets of all buffers but the last, which is the only one in the arena.
OUTSIDE = (-1,) * 7


def plan(*offsets: int, nbytes: int = 1024, version: int = 1) -> Callable[[Any], Any]:
    return lambda _: {
        "format": "tvm-ios memory plan",
        "version": version,
        "nbytes": nbytes,
        "offsets": offsets,
    }
