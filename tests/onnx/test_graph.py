from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, parser

from tests.onnx_sketch import Sketch
from tests.refusals import refused
from tvm_ios import zoo
from tvm_ios.graph.elements import GraphError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.models.load import load_operators
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.onnx.simplify import simplify


def only(build: Callable[[Sketch], Any], *shape: int, opset: int = 17) -> tuple[Any, ...]:
    """(kind, attributes) of the operators of a model of one operator, and the graph."""
    s = Sketch(*(shape or (1, 4, 9, 8)), opset=opset)
    outputs = build(s)
    graph = graph_from_onnx(s.model(*([outputs] if isinstance(outputs, str) else outputs)))
    return ([(op.kind, dict(op.attrs)) for op in graph.operators], graph)


def ints(s: Sketch, *values: int) -> str:
    return s.const(np.array(values, np.int64))


SINGLE: list[tuple[str, Callable[[Sketch], Any], tuple[str, dict[str, Any]]]] = [
    ("relu", lambda s: s.op("Relu", "x"), ("relu", {})),
    ("subtract", lambda s: s.op("Sub", "x", s.normal(9, 8)), ("subtract", {})),
    ("matmul", lambda s: s.op("MatMul", "x", s.normal(1, 4, 8, 3)), ("matmul", {})),
    ("dense", lambda s: s.op("MatMul", "x", s.normal(8, 3)), ("dense", {})),
    (
        "clip with one limit",
        lambda s: s.op("Clip", "x", "", s.const(6.0)),
        ("clip", {"min": -float(np.finfo(np.float32).max), "max": 6.0}),
    ),
    ("leaky relu", lambda s: s.op("LeakyRelu", "x", alpha=0.5), ("leaky_relu", {"alpha": 0.5})),
    (
        "max pool",
        lambda s: s.op("MaxPool", "x", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1]),
        (
            "max_pool2d",
            {
                "kernel": (3, 2),
                "strides": (2, 1),
                "pads": (1, 0, 0, 1),
                "dilations": (1, 1),
                "ceil_mode": False,
            },
        ),
    ),
    (
        "average pool",
        lambda s: s.op("AveragePool", "x", kernel_shape=[2, 2], ceil_mode=1, count_include_pad=1),
        (
            "avg_pool2d",
            {
                "kernel": (2, 2),
                "strides": (1, 1),
                "pads": (0, 0, 0, 0),
                "ceil_mode": True,
                "count_include_pad": True,
            },
        ),
    ),
    (
        "global mean",
        lambda s: s.op("GlobalAveragePool", "x"),
        ("mean", {"axes": (2, 3), "keepdims": True}),
    ),
    (
        "mean over negative axes",
        lambda s: s.op("ReduceMean", "x", axes=[-1, 1], keepdims=0),
        ("mean", {"axes": (1, 3), "keepdims": False}),
    ),
    (
        "concat",
        lambda s: s.op("Concat", "x", s.normal(1, 4, 9, 2), axis=-1),
        ("concat", {"axis": 3}),
    ),
    ("softmax", lambda s: s.op("Softmax", "x"), ("softmax", {"axis": 3})),
    ("flatten", lambda s: s.op("Flatten", "x", axis=2), ("reshape", {"shape": (4, 72)})),
    ("reshape", lambda s: s.op("Reshape", "x", ints(s, 2, -1)), ("reshape", {"shape": (2, 144)})),
    (
        "unsqueeze",
        lambda s: s.op("Unsqueeze", "x", ints(s, -1)),
        ("reshape", {"shape": (1, 4, 9, 8, 1)}),
    ),
    ("transpose", lambda s: s.op("Transpose", "x"), ("transpose", {"perm": (3, 2, 1, 0)})),
    (
        "pad",
        lambda s: s.op("Pad", "x", ints(s, 0, 0, 1, 2, 0, 0, 3, 4), s.const(0.5)),
        ("pad", {"pads": (0, 0, 1, 2, 0, 0, 3, 4), "value": 0.5}),
    ),
    (
        "slice with negative and open ends",
        lambda s: s.op("Slice", "x", ints(s, -3, 1, 0), ints(s, 1 << 40, -1, 9), ints(s, -1, 1, 2)),
        ("slice", {"axes": (1, 3), "starts": (1, 5), "ends": (3, 8), "steps": (1, 1)}),
    ),
    (
        "backward slice",
        lambda s: s.op("Slice", "x", ints(s, -1), ints(s, -(1 << 40)), ints(s, 2), ints(s, -2)),
        ("slice", {"axes": (2,), "starts": (8,), "ends": (-1,), "steps": (-2,)}),
    ),
    (
        "split",
        lambda s: s.op("Split", "x", ints(s, 3, 5), outputs=2, axis=-1),
        ("split", {"axis": 3, "sizes": (3, 5)}),
    ),
    (
        "local response norm",
        lambda s: s.op("LRN", "x", size=5, alpha=0.5, beta=0.25, bias=2.0),
        ("lrn", {"size": 5, "alpha": 0.5, "beta": 0.25, "bias": 2.0}),
    ),
    ("gather", lambda s: s.op("Gather", "x", ints(s, 2, 0), axis=1), ("gather", {"axis": 1})),
    (
        "anything else",
        lambda s: s.op("Tile", "x", ints(s, 1, 2, 1, 1)),
        ("tile", {"input1": (1, 2, 1, 1)}),
    ),
]


@pytest.mark.parametrize(
    ("build", "expected"), [case[1:] for case in SINGLE], ids=[c[0] for c in SINGLE]
)
def test_canonical_kind_and_attributes(build: Callable[[Sketch], Any], expected: Any) -> None:
    operators, graph = only(build)
    assert operators == [expected]
    assert len(graph.inputs) == 1


def test_old_attributes_mean_the_same() -> None:
    new, _ = only(lambda s: s.op("Clip", "x", s.const(0.0), s.const(6.0)))
    old, _ = only(lambda s: s.op("Clip", "x", min=0.0, max=6.0), opset=9)
    assert new == old
    pads = [0, 0, 1, 1, 0, 0, 2, 2]
    new, _ = only(lambda s: s.op("Pad", "x", ints(s, *pads)))
    old, _ = only(lambda s: s.op("Pad", "x", pads=pads), opset=9)
    assert new == old
    old, _ = only(lambda s: s.op("Softmax", "x"), opset=9)
    assert old == [
        ("reshape", {"shape": (1, 288)}),
        ("softmax", {"axis": 1}),
        ("reshape", {"shape": (1, 4, 9, 8)}),
    ]
    old, _ = only(lambda s: s.op("Softmax", "x"), 2, 5, opset=9)
    assert old == [("softmax", {"axis": 1})]


def test_convolution_bias_is_an_operator_of_its_own() -> None:
    s = Sketch(1, 4, 9, 8)
    y = s.op(
        "Conv", "x", s.normal(6, 2, 3, 2), s.normal(6), group=2, strides=[2, 1], pads=[1, 0, 2, 1]
    )
    graph = graph_from_onnx(s.model(y))
    conv, bias = graph.operators
    assert (conv.kind, bias.kind) == ("conv2d", "bias_add")
    assert dict(conv.attrs) == {
        "strides": (2, 1),
        "pads": (1, 0, 2, 1),
        "dilations": (1, 1),
        "group": 2,
    }
    assert bias.inputs[0] == conv.outputs[0]
    constants = [graph.tensors[t] for t in (conv.inputs[1], bias.inputs[1])]
    assert [t.shape for t in constants] == [(6, 2, 3, 2), (6,)]
    assert all(t.constant for t in constants)
    assert graph.tensors[conv.outputs[0]].shape == (1, 6, 5, 8)
    assert conv.flops == 2 * (6 * 5 * 8) * (2 * 3 * 2)
    assert bias.flops == 6 * 5 * 8


def test_gemm_is_dense_and_bias_however_it_was_written() -> None:
    def gemm(s: Sketch) -> str:
        return s.op("Gemm", s.op("Flatten", "x"), s.normal(5, 288), s.normal(5), transB=1)

    def product(s: Sketch) -> str:
        return s.op("Add", s.op("MatMul", s.op("Flatten", "x"), s.normal(288, 5)), s.normal(1, 5))

    (operators, one), (_, two) = only(gemm), only(product)
    assert [kind for kind, _ in operators] == ["reshape", "dense", "bias_add"]
    assert one.fingerprint == two.fingerprint
    dense = one.operators[1]
    assert [one.tensors[t].shape for t in dense.inputs] == [(1, 288), (288, 5)]
    assert dense.flops == 2 * 288 * 5


def test_a_batched_product_keeps_its_bias() -> None:
    def product(s: Sketch) -> str:
        return s.op("Add", s.op("MatMul", "x", s.normal(8, 3)), s.normal(3))

    operators, _ = only(product, 4, 9, 8)
    assert [kind for kind, _ in operators] == ["dense", "bias_add"]


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((4, 1, 1), "bias_add"), ((1, 4, 1, 1), "bias_add"), ((8,), "add"), ((4, 9, 8), "add")],
)
def test_a_constant_for_each_channel_is_a_bias(shape: tuple[int, ...], kind: str) -> None:
    for swapped in (False, True):
        operators, graph = only(
            lambda s, swapped=swapped: s.op(
                "Add", *((s.normal(*shape), "x") if swapped else ("x", s.normal(*shape)))
            )
        )
        assert [name for name, _ in operators] == [kind]
        if kind == "bias_add":
            assert [graph.tensors[t].shape for t in graph.operators[0].inputs] == [
                (1, 4, 9, 8),
                (4,),
            ]


def test_transposed_convolutions_have_explicit_pads() -> None:
    def up(s: Sketch) -> str:
        return s.op("ConvTranspose", "x", s.normal(4, 6, 3, 3), s.normal(6), **attributes)

    attributes: dict[str, Any] = {"strides": [2, 2], "auto_pad": "SAME_UPPER"}
    operators, graph = only(up)
    assert [kind for kind, _ in operators] == ["conv2d_transpose", "bias_add"]
    assert operators[0][1] == {
        "strides": (2, 2),
        "pads": (0, 0, 1, 1),
        "output_padding": (0, 0),
        "dilations": (1, 1),
        "group": 1,
    }
    assert graph.tensors[graph.outputs[0]].shape == (1, 6, 18, 16)
    assert graph.operators[0].flops == 2 * (4 * 9 * 8) * (6 * 3 * 3)
    attributes = {"strides": [2, 2], "output_shape": [18, 16]}
    assert only(up)[0][0][1]["pads"] == (1, 1, 0, 0)


def test_resize_says_what_it_reads() -> None:
    def resize(s: Sketch) -> str:
        return s.op("Resize", "x", "", s.const([1.0, 1.0, 2.0, 2.0]), **attributes)

    attributes: dict[str, Any] = {"mode": "linear"}
    assert only(resize)[0] == [
        ("resize2d", {"size": (18, 16), "mode": "linear", "coordinates": "half_pixel"})
    ]
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    expected = {"size": (18, 16), "mode": "nearest", "coordinates": "asymmetric"}
    assert only(resize)[0] == [("resize2d", expected | {"rounding": "floor"})]


def test_several_outputs_and_outputs_that_are_read() -> None:
    s = Sketch(1, 4, 9, 8)
    a, b = s.op("Split", "x", outputs=2, axis=1)
    total = s.op("Add", a, b)
    graph = graph_from_onnx(s.model(total, a, "x"))
    split = graph.operators[0]
    assert graph.outputs == (graph.operators[1].outputs[0], split.outputs[0], graph.inputs[0])


def test_graphs_survive_json() -> None:
    graph = graph_from_onnx(zoo.build("inception_block"))
    again = OpGraph.from_json(graph.to_json())
    assert again == graph
    assert again.fingerprint == graph.fingerprint


def test_already_simplified_models_give_the_same_graph(tmp_path: Path) -> None:
    model = zoo.build("inception_block")
    path = tmp_path / "block.onnx"
    onnx.save(model, path)
    from_file = load_operators(path)
    assert from_file.name == "block"
    simple = graph_from_onnx(simplify(model), already_simplified=True)
    assert simple.fingerprint == from_file.fingerprint == graph_from_onnx(model).fingerprint


LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


@pytest.mark.parametrize(
    ("name", "operators", "gigaflops"),
    [
        ("squeezenet", 93, 0.70),
        ("inception_v1", 200, 2.88),
        pytest.param("densenet121", 489, 5.7, marks=pytest.mark.slow),
        ("shufflenet", 204, 0.26),
        ("resnet50", 177, 8.2),
    ],
)
def test_real_networks_are_read(name: str, operators: int, gigaflops: float) -> None:
    path = LIGHT / f"light_{name}.onnx"
    if not path.is_file():
        pytest.skip("this onnx has no light models")
    graph = load_operators(path)
    assert len(graph) == operators
    assert sum(op.flops for op in graph.operators) / 1e9 == pytest.approx(gigaflops, rel=0.05)
    assert len(graph.inputs) == len(graph.outputs) == 1


#: As many steps as an input says.
LOOP = """
    <ir_version: 8, opset_import: ["" : 17]>
    drawn (int64 k, float[1, 4] x) => (float[1, 4] y) {
        y = Loop (k, "", x) <body = step (int64 i, bool c, float[1, 4] b)
            => (bool s, float[1, 4] a) {s = Identity (c) a = Neg (b)}>
    }
"""


def test_stated_errors() -> None:
    with refused(GraphError, "(Loop)"):
        graph_from_onnx(parser.parse_model(LOOP))
    s = Sketch(1, 4)
    s.op("NonZero", "x")
    with refused(GraphError, "'v0_0'"):
        graph_from_onnx(s.model(s.op("Cast", "v0_0", to=TensorProto.FLOAT)))


def test_a_concatenation_of_an_input_without_a_name_is_refused() -> None:
    sketch = Sketch(1, 3, 4, 5)
    model = sketch.model(sketch.op("Concat", "x", "x", axis=1))
    model.graph.node[0].input[0] = ""
    with refused(GraphError, "(Concat)", "name"):
        graph_from_onnx(model)
