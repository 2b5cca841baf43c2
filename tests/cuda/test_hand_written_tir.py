"""What has no kernel of ours and is no loop nest in TVM, as CUDA kernels, run on the CPU.

TVM writes sorting, scattering and scans by hand; others come as TIR functions of the module.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

from relay_passes.pipeline import prepare
from relay_passes.relax.importer import import_onnx
from runtime_ext.cuda.compiler import CudaKernelCompiler, GpuPrecision
from runtime_ext.kernels.relax_function import with_tir
from runtime_ext.units.unit import UnitSource
from tests.cuda.cuda_harness import TOLERANCE, Bench, Unit
from tests.kernels.kernel_harness import make_unit
from tests.onnx_sketch import Sketch, relative_error, run_on
from tests.refusals import refused
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.simplify import simplify

SHAPE = (2, 6, 25)
FLOAT = 1


def called(s: Sketch) -> list[str]:
    """What the importer writes as calls of TIR functions."""
    square = s.op("Slice", "x", *(s.const(np.array([n])) for n in (0, 6, 2)))
    return [
        s.op("Tile", s.op("Relu", "x"), s.const(np.array([1, 2, 3]))),
        s.op("Einsum", square, equation="ijj->ij"),
    ]


def scans(s: Sketch) -> list[str]:
    """Along each axis, of more rows than a warp has threads."""
    high = s.op("Tile", "x", s.const(np.array([20, 1, 1])))
    return [
        s.op("CumSum", high, s.const(np.array(2))),
        s.op("CumSum", high, s.const(np.array(0)), exclusive=1),
        s.op("CumSum", "x", s.const(np.array(1)), reverse=1),
    ]


def sorts(s: Sketch) -> list[str]:
    """Of so many that they are merged in rounds."""
    rows = s.op("Reshape", "x", s.const(np.array([2, 150])))
    largest, places = s.op("TopK", rows, s.const(np.array([7])), outputs=2)
    smallest, _ = s.op("TopK", "x", s.const(np.array([2])), outputs=2, largest=0, axis=1)
    return [largest, s.op("Cast", places, to=FLOAT), smallest]


def scatters(s: Sketch) -> list[str]:
    """What is written twice is added up, or the last one counts."""
    places = s.const(np.array(s.rng.integers(0, 6, (2, 4, 25))))
    rows = s.const(np.array([[1, 2], [0, 3], [1, 2]]))
    once = s.const(np.tile(np.arange(4).reshape(1, 4, 1), (2, 1, 25)))
    return [
        s.op("ScatterElements", "x", places, s.normal(2, 4, 25), axis=1, reduction="add"),
        s.op("ScatterElements", "x", once, s.normal(2, 4, 25), axis=1),
        s.op("ScatterND", "x", rows, s.normal(3, 25), reduction="add"),
        s.op("GatherElements", "x", places, axis=1),
        s.op("Cast", s.op("ArgMax", "x", axis=1), to=FLOAT),
    ]


def outputs_of(model: Any, x: Array, room: Path, precision: GpuPrecision) -> list[Array]:
    """Of a model with one input: its units one after another, each on the emulator."""
    prepared = prepare(import_onnx(simplify(model)))
    graph, functions = prepared.units, [*map(prepared.outliner.unit, range(len(prepared.units)))]
    layouts = {str(u): ("",) * (len(f.data) + len(f.outputs)) for u, f in enumerate(functions)}
    units = {
        name: Unit(with_tir(function.function, prepared.module), layouts[name])
        for name, function in zip(layouts, functions, strict=True)
    }
    bench = Bench(units, room, precision, only="default")
    values = {graph.inputs[0]: x}
    for name, function in zip(layouts, functions, strict=True):
        kinds = [graph.tensors[t] for t in function.outputs]
        like = [np.empty(kind.shape, kind.dtype) for kind in kinds]
        inputs = [values[t] for t in function.data]
        constants = [c.value.numpy() for c in function.constants]
        results = bench.run(bench.forms[name]["default"], layouts[name], inputs, constants, like)
        values |= zip(function.outputs, results, strict=True)
    return [values[t] for t in graph.outputs]


@pytest.mark.parametrize(
    ("sketch", "precision"),
    [
        *((sketch, "float32") for sketch in (called, sorts, scatters)),
        (scans, "float16"),
        *(
            pytest.param(sketch, "float16", marks=pytest.mark.slow)
            for sketch in (called, sorts, scatters)
        ),
        pytest.param(scans, "float32", marks=pytest.mark.slow),
    ],
)
def test_they_compute_what_onnx_runtime_does(
    sketch: Callable[[Sketch], list[str]], precision: GpuPrecision, tmp_path: Path
) -> None:
    s = Sketch(*SHAPE)
    model = s.model(*sketch(s))
    # All different, and in float16 exact, so that there is one right order.
    x = (s.rng.permutation(np.prod(SHAPE)).reshape(SHAPE) / 64 - 2).astype("float32")
    outputs = outputs_of(model, x, tmp_path, precision)
    assert relative_error(outputs, run_on(model, {"x": x})) < TOLERANCE[precision]


def test_what_tvm_makes_no_kernel_of_is_refused_by_name(tmp_path: Path) -> None:
    def body(emit: Any, x: Any, boxes: Any) -> Any:
        return emit(relax.op.vision.roi_align(x, boxes, (3, 3), 1.0))

    source = UnitSource(make_unit([(1, 2, 6, 6), (2, 5)], [], body), ("", "", ""))
    with refused(UserError, "relax.vision.roi_align"):
        CudaKernelCompiler("sm_90", tmp_path).compile({"unit": source})


def test_what_does_not_compile_is_named_too(tmp_path: Path) -> None:
    def body(emit: Any, x: Any) -> Any:
        return relax.op.astype(emit(relax.op.exp(emit(relax.op.astype(x, "float16")))), "float32")

    source = UnitSource(make_unit([SHAPE], [], body), ("", ""))
    with refused(UserError, "sm_90", "relax.exp"):
        CudaKernelCompiler("sm_90", tmp_path).compile({"unit": source})
