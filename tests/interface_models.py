"""Models whose inputs and outputs are not those of most networks, and what ONNX makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tvm_ios.files.array_files import Array

_HEAD = '<ir_version: 8, opset_import: ["": 17]> m '

#: By what is unusual about them.
MODELS: Mapping[str, str] = {
    # The constant k is a bias too, which has another shape there.
    "returned": """(float[1, 4, 3, 3] x, float[3] z)
        => (float[1, 4, 3, 3] y, float[4, 1, 1] k, float[1, 4, 3, 3] again, float[3] w, float[3] v,
            int64[4] s, float[1, 4, 3, 3] same) <float[4, 1, 1] c = {1, 2, 3, 4}> {
        a = Add(x, c)
        y = Relu(a)
        again = Identity(y)
        k = Identity(c)
        w = Identity(z)
        v = Identity(z)
        s = Shape(x)
        same = Identity(x)
    }""",
    "nothing": """(float[2, 3] x) => (float[2, 3] y, int64[2] s) {
        y = Identity(x)
        s = Shape(x)
    }""",
    "no input": """() => (float[2] y, float n) <float[2] c = {1, 2}, float d = {3}> {
        y = Neg(c)
        n = Identity(d)
    }""",
    "numbers": """(float x) => (float y, float k) <float c = {3}> {
        y = Mul(x, c)
        k = Identity(c)
    }""",
    "no elements": """(float[1, 2, 0, 4] past, float[1, 2, 3, 4] new, float[2, 0] e, float[2, 3] f,
            float[0] n)
        => (float[1, 2, 3, 4] all, float[2] sum, float[2] most, float[2, 3] p, float[0] q,
            float[2, 3] a, float[2, 0] b, float[2, 3] same)
        <int64[1] last = {1}, int64[2] parts = {3, 0}, float[0, 3] w = {}, int64[0, 1] at = {},
            float[0, 3] rows = {}> {
        all = Concat <axis = 2> (past, new)
        sum = ReduceSum <keepdims = 0> (e, last)
        most = ReduceMax <axes = [1], keepdims = 0> (e)
        z = MatMul(e, w)
        p = Sub(z, f)
        q = Relu(n)
        g = Abs(f)
        a, b = Split <axis = 1> (g, parts)
        same = ScatterND(f, at, rows)
    }""",
    "statistics": """(float[2, 3, 4] x, float[4] g)
        => (float[2, 3, 4] y, float[2, 3, 1] mean, float[2, 3, 1] inverse, bool[2, 3, 4] mask) {
        n, mean, inverse = LayerNormalization(x, g)
        y, mask = Dropout(n)
    }""",
}


def interface_model(what: str) -> onnx.ModelProto:
    """One of :data:`MODELS`, or one of names that are no identifiers."""
    if what == "names":
        return _names()
    model = onnx.parser.parse_model(_HEAD + MODELS[what])
    onnx.checker.check_model(model, full_check=True)
    return model


def write_interface_model(what: str, folder: Path) -> tuple[Path, dict[str, Array], list[Array]]:
    """The file of such a model, inputs, and the outputs that ONNX defines."""
    model = interface_model(what)
    path = folder / "m.onnx"
    onnx.save(model, path)
    rng = np.random.default_rng(1)
    feeds: dict[str, Array] = {}
    for value in model.graph.input:
        shape = [extent.dim_value for extent in value.type.tensor_type.shape.dim]
        feeds[value.name] = np.asarray(rng.standard_normal(shape), np.float32)
    # ONNX's own evaluator makes no mask.
    outputs = [value.name for value in model.graph.output]
    results = ReferenceEvaluator(model).run([n for n in outputs if n != "mask"], feeds)
    expected = dict(zip((n for n in outputs if n != "mask"), results, strict=True))
    expected.setdefault("mask", np.ones((2, 3, 4), bool))
    return path, feeds, [np.asarray(expected[name]) for name in outputs]


def require_outputs(session: Any, feeds: Mapping[str, Array], expected: list[Array]) -> None:
    """Run a session, or a module in C++, and compare types, shapes and numbers."""
    session.run(**feeds)
    for place, array in enumerate(expected):
        output = session.get_output(place)
        assert output.dtype == array.dtype
        assert output.shape == array.shape
        np.testing.assert_allclose(output, array, rtol=1e-5, atol=1e-6)


def _names() -> onnx.ModelProto:
    """TVM calls its own values ``lv``, too."""

    def value(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3])

    nodes = [
        helper.make_node("Sub", ["0", "images:0"], ["a"]),
        helper.make_node("Sub", ["a", "images_0"], ["b:0"]),
        helper.make_node("Sub", ["b:0", "input.1"], ["5"]),
        helper.make_node("Mul", ["5", "lv"], ["out.2"]),
    ]
    inputs = [value(n) for n in ("0", "images:0", "images_0", "input.1", "not/read", "lv")]
    graph = helper.make_graph(nodes, "m", inputs, [value("5"), value("out.2")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


#: All of them.
WHAT = (*MODELS, "names")
