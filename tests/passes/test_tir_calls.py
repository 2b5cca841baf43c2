"""Units may call TIR functions of the module: TVM's code for them, whole or in ranges of tiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te, topi
from tvm.script import tirx as T

from relay_passes import IOSSchedule, SearchOptions
from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relax.importer import import_onnx
from runtime_ext.build import build
from runtime_ext.execution.bound_model import bind_library
from runtime_ext.kernels.generic import NoKernelError
from runtime_ext.machine.this_machine import host_target
from runtime_ext.peers.tvm_build import compile_tvm_build
from tests.onnx_sketch import Sketch, relative_error, run_on
from tests.refusals import refused
from tests.relax import relax_sketch
from tests.relax.relax_sketch import LANES, RelaxSketch, inputs_of, module_of, run
from tvm_ios.files.array_files import Array
from tvm_ios.ios.lazy import Budget
from tvm_ios.onnx.simplify import simplify
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.policy import Limits
from tvm_ios.program.program import Launch


def outputs_of(module: tvm.IRModule, inputs: list[Array], lanes: int = LANES) -> list[Array]:
    """Of a scheduled module, by an executor that spoils what nothing may need."""
    return relax_sketch.outputs_of(build(module, lanes=lanes), inputs, executor="poisoning")


def scheduled(module: tvm.IRModule) -> tvm.IRModule:
    prepared = prepare(module)
    return apply_schedule(prepared, greedy_schedule(prepared.units))


def _many(s: RelaxSketch, x: Any, y: Any) -> Any:
    """Calls beside operators: one argument twice, weights, numbers, several results."""
    call = s.builder.emit_te
    tiled = s.emit(relax.op.nn.relu(call(topi.tile, x, [1, 2])))
    total = call(topi.einsum, "ij,ij->i", y, y)
    weighted = call(topi.einsum, "ij,jk->ik", x, s.normal(6, 5))
    low = relax.const(np.float32(-0.25))
    # No clip, which would be an operator again.
    bounded = call(topi.subtract, y, low)
    halves = call(lambda a: topi.split(a, 2, axis=1), s.emit(relax.op.tanh(y)))
    first, second = (s.emit(relax.TupleGetItem(halves, i)) for i in range(2))
    return tiled, total, weighted, bounded, s.emit(relax.op.add(first, second))


def test_they_compute_what_tvm_does() -> None:
    module = module_of([(4, 6), (4, 6)], _many)
    applied, inputs = scheduled(module), inputs_of(module)
    expected = run(module, inputs)
    assert relative_error(run(applied, inputs), expected) < 1e-6
    outputs = outputs_of(applied, inputs)
    assert relative_error(outputs, expected) < 1e-6
    again = outputs_of(tvm.ir.load_json(tvm.ir.save_json(applied)), inputs, lanes=1)
    assert [a.tobytes() for a in again] == [a.tobytes() for a in outputs]


def test_tvms_own_build_is_made_of_them(tmp_path: Path) -> None:
    module = module_of([(4, 6), (4, 6)], _many)
    compile_tvm_build(module, host_target(1), tmp_path / "tvm.so")
    inputs = inputs_of(module)
    given = dict(zip((p.name for p in module["main"].params), inputs, strict=True))
    tvm_build = bind_library(tmp_path / "tvm.so")(given)
    outputs = tvm_build.outputs(tvm_build.run())
    assert relative_error(outputs, run(module, inputs)) < 1e-6


def test_lanes_share_the_tiles_of_a_call() -> None:
    module = module_of([(64, 64)], lambda s, x: s.builder.emit_te(topi.tile, x, [2, 1]))
    program = build(scheduled(module), lanes=LANES).program
    launches = [item for lane in program.lanes for item in lane if isinstance(item, Launch)]
    assert [launch.end - launch.begin for launch in launches] == [64, 64]


def test_a_search_measures_them() -> None:
    module = module_of([(4, 6), (4, 6)], _many)
    options = SearchOptions(lanes=LANES, limits=Limits(budget=Budget(max_measurements=6)))
    outputs = outputs_of(IOSSchedule(options=options)(module), inputs_of(module))
    assert relative_error(outputs, run(module)) < 1e-6


@T.prim_func(s_tir=True)
def _doubled(x: T.Buffer((4, 8), "float32"), y: T.Buffer((4, 8), "float32")) -> None:
    for i, j in T.grid(4, 8):
        with T.sblock("doubled"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] * T.float32(2)


@T.prim_func(s_tir=True)
def _scheduled(x: T.Buffer((4, 8), "float32"), y: T.Buffer((4, 8), "float32")) -> None:
    for i in T.parallel(2):
        for j, k, v in T.grid(2, 2, 4):
            with T.sblock("doubled"):
                vi = T.axis.spatial(4, i * 2 + j)
                vj = T.axis.spatial(8, k * 4 + v)
                y[vi, vj] = x[vi, vj] * T.float32(2)


@pytest.mark.parametrize("function", [_doubled, _scheduled])
def test_a_function_written_by_hand(function: Any) -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        called = s.builder.add_func(function, "kernel")
        call = relax.call_tir(called, [x], relax.TensorType((4, 8), "float32"))
        return s.emit(relax.op.nn.relu(s.emit(call)))

    module = module_of([(4, 8)], body)
    inputs = inputs_of(module)
    (output,) = outputs_of(scheduled(module), inputs)
    assert np.array_equal(output, np.maximum(inputs[0] * 2, 0))


def test_one_that_tvm_cannot_fuse_is_refused_by_name() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        def made(a: Any) -> Any:
            return te.extern([(4, 8)], [a], lambda i, o: tvm.tirx.call_packed("sort", i[0], o[0]))

        return s.builder.emit_te(made, x, primfunc_name_hint="outside")

    with refused(NoKernelError, "tir.outside"):
        build(scheduled(module_of([(4, 8)], body)), lanes=LANES)


def test_operators_that_the_importer_writes_as_tir() -> None:
    s = Sketch(2, 6, 5)
    copies = s.op("Tile", s.op("Relu", "x"), s.const(np.array([1, 2, 3])))
    backwards = s.op("CumSum", "x", s.const(np.array(1)), reverse=1, exclusive=1)
    square = s.op("Slice", "x", *(s.const(np.array([n])) for n in (0, 5, 1)))
    diagonal = s.op("Einsum", square, equation="ijj->ij")
    model = s.model(copies, backwards, diagonal)
    module = import_onnx(simplify(model))
    inputs = inputs_of(module)
    outputs = outputs_of(scheduled(module), inputs)
    assert relative_error(outputs, run_on(model, {"x": inputs[0]})) < 1e-6


@T.prim_func(s_tir=True)
def _of_nan(
    x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32"), z: T.Buffer((5, 4), "float32")
) -> None:
    for i in T.serial(4):
        with T.sblock("of_nan"):
            v = T.axis.spatial(4, i)
            z[0, v] = T.Select(x[v] != x[v], y[v], x[v])
            z[1, v] = x[v] - x[v]
            z[2, v] = T.Select(not (x[v] < y[v]), T.float32(1), T.float32(0))
            z[3, v] = T.Select(x[v] < y[v] or x[v] >= y[v], T.float32(1), T.float32(0))
            z[4, v] = T.Select(y[v] == y[v] and x[v] == x[v], T.float32(1), T.float32(0))


def test_nan_is_not_simplified_away() -> None:
    def body(s: RelaxSketch, x: Any, y: Any) -> Any:
        called = s.builder.add_func(_of_nan, "kernel")
        return s.emit(relax.call_tir(called, [x, y], relax.TensorType((5, 4), "float32")))

    nan, inf = np.nan, np.inf
    inputs = [np.array(row, np.float32) for row in ([nan, 1, 2, inf], [1, nan, 1, 2])]
    (output,) = outputs_of(scheduled(module_of([(4,), (4,)], body)), inputs)
    expected = [
        *([1, 1, 2, inf], [nan, 0, 0, nan], [1, 1, 1, 1]),
        *([0, 0, 1, 1], [0, 0, 1, 1]),
    ]
    np.testing.assert_array_equal(output, np.array(expected, np.float32))
