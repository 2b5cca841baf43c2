"""An executable of the small open program, with kernels of TVM's."""

# TIR's functions are no Python.
# pyright: reportInvalidTypeForm=false, reportUnknownMemberType=false
from __future__ import annotations

from pathlib import Path

import tvm
from tvm.script import tirx as T

from runtime_ext.execution.executable import Executable
from runtime_ext.execution.ports import buffer_ports
from runtime_ext.machine.cpu_features import required_features
from tests.open_program import CONSTANTS, TILE, open_program, program_with_a_box
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.arena.open_plan import plan_open
from tvm_ios.program.program import Role
from tvm_ios.schedule.schedule import Schedule

TARGET = {"kind": "llvm", "mcpu": "x86-64-v2"}


@T.prim_func
def scale(px: T.handle, pf: T.handle, py: T.handle, columns: T.int64, begin: T.int64, end: T.int64):
    T.func_attr({"global_symbol": "scale", "tirx.noalias": True})
    rows = T.int64()
    pitch = T.int64()
    x = T.match_buffer(px, (rows, columns), "float32")
    f = T.match_buffer(pf, (3,), "float32")
    y = T.match_buffer(py, (rows, pitch), "float32")
    for i in T.serial(end - begin):
        for j in T.serial(columns):
            y[begin + i, j] = x[begin + i, j] * f[0] + f[1]


@T.prim_func
def sum_halves(px: T.handle, ph: T.handle, columns: T.int64, begin: T.int64, end: T.int64):
    T.func_attr({"global_symbol": "sum_halves", "tirx.noalias": True})
    rows = T.int64()
    pitch = T.int64()
    x = T.match_buffer(px, (rows, pitch), "float32")
    h = T.match_buffer(ph, (rows, T.int64(2)), "float32")
    for i in T.serial(end - begin):
        h[(begin + i) // 2, (begin + i) % 2] = T.float32(0)
        for j in T.serial(columns):
            # The first half, or the rest.
            if (j - columns // 2) * (1 - (begin + i) % 2 * 2) < (begin + i) % 2:
                h[(begin + i) // 2, (begin + i) % 2] = (
                    h[(begin + i) // 2, (begin + i) % 2] + x[(begin + i) // 2, j]
                )


@T.prim_func
def sum_both(ph: T.handle, ps: T.handle, rows: T.int64, begin: T.int64, end: T.int64):
    T.func_attr({"global_symbol": "sum_both", "tirx.noalias": True})
    h = T.match_buffer(ph, (rows, T.int64(2)), "float32")
    s = T.match_buffer(ps, (rows,), "float32")
    for i in T.serial((end - begin) * 2):
        if begin * 2 + i < rows:
            s[begin * 2 + i] = h[begin * 2 + i, 0] + h[begin * 2 + i, 1]


@T.prim_func
def turn(
    px: T.handle,
    pm: T.handle,
    ps: T.handle,
    py: T.handle,
    columns: T.int64,
    rows: T.int64,
    begin: T.int64,
    end: T.int64,
):
    T.func_attr({"global_symbol": "turn", "tirx.noalias": True})
    pitch = T.int64()
    x = T.match_buffer(px, (rows, pitch), "float32")
    m = T.match_buffer(pm, (rows, columns), "float32")
    s = T.match_buffer(ps, (rows,), "float32")
    y = T.match_buffer(py, (columns, rows), "float32")
    for i in T.serial((end - begin) * TILE):
        if begin * TILE + i < columns:
            for j in T.serial(rows):
                y[begin * TILE + i, j] = x[j, begin * TILE + i] * m[j, begin * TILE + i] + s[j]


@T.prim_func
def add(ps: T.handle, pe: T.handle, pt: T.handle, groups: T.int64, begin: T.int64, end: T.int64):
    T.func_attr({"global_symbol": "add", "tirx.noalias": True})
    rows = T.int64()
    s = T.match_buffer(ps, (rows,), "float32")
    e = T.match_buffer(pe, (groups * 8, rows), "float32")
    t = T.match_buffer(pt, (rows,), "float32")
    for i in T.serial(end - begin):
        t[begin + i] = s[begin + i] + e[groups * 8 - 1, begin + i]


KERNELS = {
    "scale": scale,
    "sum_halves": sum_halves,
    "sum_both": sum_both,
    "turn": turn,
    "add": add,
}


def open_executable(folder: Path, lanes: int = 2) -> Executable:
    """The program on so many lanes; its library is written into a folder."""
    library = folder / "k.so"
    module = tvm.IRModule(KERNELS)
    tvm.compile(module, target=tvm.target.Target(TARGET)).export_library(str(library))
    program = program_with_a_box() if lanes == 2 else open_program(lanes)
    return Executable(
        program=program,
        plan=plan_open(program),
        kernels=library,
        constants=CONSTANTS,
        inputs=tuple(buffer_ports(program, Role.INPUT)),
        outputs=tuple(buffer_ports(program, Role.OUTPUT)),
        schedule=Schedule("any", (), policy="sequential").to_json(OpGraph("any", (), (), (), ())),
        target="llvm -mcpu=x86-64-v2",
        features=required_features(TARGET),
        fingerprint="0",
    )
