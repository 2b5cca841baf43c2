"""Clips that the importer wrote as TIR become operators again; other minima do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from tvm import relax, te, tirx
from tvm.relax.frontend.onnx import from_onnx

from relay_passes.relax.canonical.canonicalise import canonicalise
from relay_passes.relax.canonical.raise_clip import RaiseClip
from relay_passes.relax.extract import extract
from relay_passes.relax.importer import import_onnx
from tests.onnx_sketch import Sketch, relative_error
from tests.onnx_sketch import run as run_onnxruntime
from tests.relax.relax_sketch import RelaxSketch, module_of, operators, run
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.onnx.simplify import simplify

SHAPE = (1, 3, 8, 8)
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@pytest.mark.parametrize("bounds", [(-0.5, 1.0), (0.5, None), (None, -0.25)])
def test_raises_a_clip(bounds: tuple[float | None, float | None]) -> None:
    sketch = Sketch(*SHAPE)
    inputs = ["" if b is None else sketch.const(np.float32(b)) for b in bounds]
    model = sketch.model(sketch.op("Clip", "x", *inputs))
    module = from_onnx(model, keep_params_in_input=False)
    assert "relax.call_tir" in operators(module)
    raised = canonicalise(module)
    kept = zip(["relax.maximum", "relax.minimum"], bounds, strict=True)
    assert operators(raised) == [name for name, bound in kept if bound is not None]
    (clip,) = extract(raised).graph.operators
    representable = np.finfo(np.float32)
    limits = zip((float(representable.min), float(representable.max)), bounds, strict=True)
    low, high = (most if bound is None else bound for most, bound in limits)
    assert (clip.kind, dict(clip.attrs)) == ("clip", {"min": low, "max": high})
    assert [v.name_hint for v in raised.get_global_vars()] == ["main"]
    x = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    assert relative_error(run(raised, [x]), run_onnxruntime(model)) == 0


@pytest.mark.parametrize("bounds", [(0, None), (None, 2), (-1, 1)])
def test_bounds_of_integers_are_integers(bounds: tuple[int | None, int | None]) -> None:
    sketch = Sketch(*SHAPE)
    whole = sketch.op("Cast", sketch.op("Mul", "x", sketch.const(np.float32(3))), to=INT64)
    inputs = ["" if b is None else sketch.const(np.int64(b)) for b in bounds]
    model = sketch.model(sketch.op("Cast", sketch.op("Clip", whole, *inputs), to=FLOAT))
    simple = simplify(model)
    raised = import_onnx(simple)
    assert "relax.call_tir" not in operators(raised)
    ours, theirs = (
        [dict(operator.attrs) for operator in graph.operators if operator.kind == "clip"]
        for graph in (extract(raised).graph, graph_from_onnx(simple))
    )
    assert ours == theirs
    x = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    assert relative_error(run(raised, [x]), run_onnxruntime(model)) == 0


def test_of_exchanged_bounds_the_upper_one_holds() -> None:
    sketch = Sketch(*SHAPE)
    model = sketch.model(sketch.op("Clip", "x", *(sketch.const(np.float32(b)) for b in (1, -1))))
    raised = canonicalise(from_onnx(model, keep_params_in_input=False))
    (clip,) = extract(raised).graph.operators
    assert dict(clip.attrs) == {"min": 1, "max": -1}
    x = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    assert relative_error(run(raised, [x]), run_onnxruntime(model)) == 0


def test_raises_bounds_that_are_attributes() -> None:
    sketch = Sketch(*SHAPE, opset=6)
    module = from_onnx(
        sketch.model(sketch.op("Clip", "x", min=0.0, max=6.0)), keep_params_in_input=False
    )
    (clip,) = extract(canonicalise(module)).graph.operators
    assert dict(clip.attrs) == {"min": 0, "max": 6}


def test_a_bound_that_is_none_leaves_nothing() -> None:
    sketch = Sketch(*SHAPE, opset=6)
    model = sketch.model(sketch.op("Relu", sketch.op("Clip", "x", max=6.0)))
    raised = canonicalise(from_onnx(model, keep_params_in_input=False))
    assert operators(raised) == ["relax.minimum", "relax.nn.relu"]


@pytest.mark.parametrize("kind", ["least", "most"])
def test_raises_a_bound_that_is_computed(kind: str) -> None:
    sketch = Sketch(*SHAPE)
    top = sketch.op("ReduceMax", "x", keepdims=0)
    bound = sketch.op("Mul", top, sketch.const(np.float32(0.25)))
    clipped = sketch.op("Clip", "x", *([bound] if kind == "least" else ["", bound]))
    model = sketch.model(clipped)
    raised = import_onnx(simplify(model))
    assert "relax.call_tir" not in operators(raised)
    assert operators(raised)[-1] == {"least": "relax.maximum", "most": "relax.minimum"}[kind]
    x = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    assert relative_error(run(raised, [x]), run_onnxruntime(model)) == 0


def test_bounds_that_are_apart_are_two_clips() -> None:
    def body(s: RelaxSketch, x: Any, y: Any) -> Any:
        low = s.emit(relax.op.maximum(x, relax.const(0.0)))
        between = s.emit(relax.op.exp(y))
        return s.emit(relax.op.add(s.emit(relax.op.minimum(low, relax.const(6.0))), between))

    module = relax.transform.Normalize()(module_of([(4, 4), (4, 4)], body))
    kinds = [op.kind for op in extract(canonicalise(module)).graph.operators]
    assert kinds == ["clip", "exp", "clip", "add"]


def _tir(body: Any) -> Any:
    def main(s: RelaxSketch, x: Any, y: Any) -> Any:
        def made(a: Any, b: Any) -> Any:
            return te.compute((4, 4), lambda i, j: body(a, b, i, j))

        return s.builder.emit_te(made, x, y)

    return relax.transform.Normalize()(module_of([(4, 4), (4, 4)], main))


OTHERS = {
    "of_an_element": lambda a, b, i, j: tirx.max(a[i, j], a[0, 0]),
    "of_two": lambda a, b, i, j: tirx.max(a[i, j], b[i, j]),
    "transposed": lambda a, b, i, j: tirx.max(a[j, i], tirx.const(0.0, "float32")),
    "scaled": lambda a, b, i, j: tirx.min(a[i, j] * 2.0, tirx.const(1.0, "float32")),
    "of_the_second": lambda a, b, i, j: tirx.min(b[i, j], tirx.const(1.0, "float32")),
}


@pytest.mark.parametrize("case", OTHERS)
def test_leaves_other_functions(case: str) -> None:
    assert operators(RaiseClip()(_tir(OTHERS[case]))) == ["relax.call_tir"]


def test_an_intermediate_value_that_is_read_stays() -> None:
    sketch = Sketch(*SHAPE)
    low = sketch.op("Clip", "x", sketch.const(np.float32(-0.5)))
    high = sketch.op("Clip", low, "", sketch.const(np.float32(0.5)))
    model = sketch.model(high, low)
    raised = canonicalise(from_onnx(model, keep_params_in_input=False))
    assert operators(raised) == ["relax.maximum", "relax.minimum"]
    assert [op.kind for op in extract(raised).graph.operators] == ["clip", "clip"]
    x = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    assert relative_error(run(raised, [x]), run_onnxruntime(model)) == 0
