"""Programs of one small model for several batches: three operations a row, two lanes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.script import tirx as T

from runtime_ext.deployment.adding import NewEntry, add_entry
from runtime_ext.execution.executable import Executable
from runtime_ext.execution.ports import Port
from runtime_ext.machine.cpu_features import required_features
from tvm_ios.deployment.entry import Entry
from tvm_ios.files.array_files import Array
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.arena.open_plan import plan_open
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Buffer, BufferType, KernelUse, Launch, Program, Role
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.shapes.extent import Symbol, extent_of

COLUMNS = 4
WEIGHTS = np.random.default_rng(0).standard_normal(COLUMNS).astype("float32")
MODEL, IDENTITY = "scaled", "0" * 64
#: What is written of a schedule; programs here are lowered from none.
SCHEDULE = Schedule("0", (), "sequential").to_json(OpGraph("scaled", (), (), (), ()))


def scaled(rows: int) -> tvm.tirx.PrimFunc:
    """A kernel of one row a tile, under a symbol that says what it computes."""

    @T.prim_func
    def kernel(
        x: T.Buffer((rows, 4), "float32"),
        w: T.Buffer((4,), "float32"),
        y: T.Buffer((rows, 4), "float32"),
        begin: T.int32,
        end: T.int32,
    ):
        for i in T.serial(end - begin):
            for j in T.serial(4):
                y[begin + i, j] = x[begin + i, j] * w[j]

    return kernel.with_attr("global_symbol", symbol(rows)).with_attr("tirx.noalias", True)


def symbol(rows: int) -> str:
    return f"_scaled{rows}_0"


def image(rows: int) -> Array:
    """The input of so many rows, always the same."""
    return np.random.default_rng(rows).standard_normal((rows, COLUMNS)).astype("float32")


def expected(x: Array) -> Array:
    return x * WEIGHTS


def rows_executable(
    folder: Path, rows: int, level: str = "x86-64-v2", lanes: int = 1
) -> Executable:
    """The model for some rows; lanes share them."""
    library = folder / f"rows{rows}.so"
    target = {"kind": "llvm", "mcpu": level}
    module = tvm.IRModule({symbol(rows): scaled(rows)})
    tvm.compile(module, target=tvm.target.Target(target)).export_library(str(library))
    whole = BufferType((rows, COLUMNS))
    cuts = [rows * lane // lanes for lane in range(lanes + 1)]
    program = Program(
        lanes=tuple(
            (Launch(0, (0, 1, 2), begin, end, 0),) if begin < end else ()
            for begin, end in pairwise(cuts)
        ),
        kernels=(symbol(rows),),
        buffers=(
            Buffer("x", whole, Role.INPUT),
            Buffer("w", BufferType((COLUMNS,)), Role.CONSTANT),
            Buffer("y", whole, Role.OUTPUT),
        ),
        units=("scaled",),
        uses=(KernelUse(rows, 3, (2,)),),
    )
    return Executable(
        program=program,
        plan=MemoryPlan(0, {}),
        kernels=library,
        constants={"w": WEIGHTS},
        inputs=(Port("image", "x", whole.shape, "float32"),),
        outputs=(Port("result", "y", whole.shape, "float32"),),
        schedule=SCHEDULE,
        target=str(tvm.target.Target(target)),
        features=required_features(target),
        fingerprint="0",
    )


@T.prim_func
def scaled_any(
    px: T.handle, pw: T.handle, py: T.handle, rows: T.int64, begin: T.int64, end: T.int64
):  # pyright: ignore[reportInvalidTypeForm]
    T.func_attr({"global_symbol": "_scaled_any_0", "tirx.noalias": True})
    x = T.match_buffer(px, (rows, 4), "float32")
    w = T.match_buffer(pw, (4,), "float32")
    y = T.match_buffer(py, (rows, 4), "float32")
    for i in T.serial(end - begin):
        for j in T.serial(4):
            y[begin + i, j] = x[begin + i, j] * w[j]


def range_executable(
    folder: Path, least: int, most: int, level: str = "x86-64-v2", lanes: int = 1
) -> Executable:
    """The model for a range of rows; lanes share them."""
    library = folder / "rows.so"
    target = {"kind": "llvm", "mcpu": level}
    module = tvm.IRModule({"_scaled_any_0": scaled_any})
    tvm.compile(module, target=tvm.target.Target(target)).export_library(str(library))
    rows = extent_of(Symbol("rows", least, most, least))
    whole = BufferType((rows, COLUMNS))
    cuts = [rows * lane // lanes for lane in range(lanes + 1)]
    program = Program(
        lanes=tuple((Launch(0, (0, 1, 2), begin, end, 0),) for begin, end in pairwise(cuts)),
        kernels=("_scaled_any_0",),
        buffers=(
            Buffer("x", whole, Role.INPUT),
            Buffer("w", BufferType((COLUMNS,)), Role.CONSTANT),
            Buffer("y", whole, Role.OUTPUT),
        ),
        units=("scaled",),
        uses=(KernelUse(rows, 3, (2,), ("rows",)),),
    )
    return replace(
        rows_executable(folder, 1, level),
        program=program,
        plan=plan_open(program),
        kernels=library,
        inputs=(Port("image", "x", whole.shape, "float32"),),
        outputs=(Port("result", "y", whole.shape, "float32"),),
    )


def add_range(app: Path, least: int, most: int, level: str = "x86-64-v2", lanes: int = 1) -> Entry:
    """Add the model for a range of rows to a deployment."""
    executable = range_executable(app.parent, least, most, level, lanes)
    return add_entry(app, MODEL, IDENTITY, NewEntry(executable, "sequential", padding=True))


def add_rows(
    app: Path, rows: int, level: str = "x86-64-v2", lanes: int = 1, *, padding: bool = True
) -> Entry:
    """Add the model for some rows to a deployment."""
    executable = rows_executable(app.parent, rows, level, lanes)
    return add_entry(app, MODEL, IDENTITY, NewEntry(executable, "sequential", padding=padding))


def rewrite(app: Path, change: Callable[[Any], object]) -> None:
    """Change a deployment's registry, and its checksum to match."""
    file = app / "deployment.json"
    data = json.loads(file.read_text())
    change(data)
    del data["sha256"]
    head = json.dumps(data).removesuffix("}") + ", "
    file.write_text(f'{head}"sha256": "{hashlib.sha256(head.encode()).hexdigest()}"}}')
