"""Quantised operators in floats: exact sums, ties to even, saturation, zero points."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests import contrib_sketch
from tests.onnx_sketch import kinds, run_on
from tests.refusals import refused
from tvm_ios.files.array_files import Array
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.simplify import simplify

pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(0)


def integers(*shape: int, dtype: type = np.uint8) -> Array:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def one(
    kind: str,
    inputs: list[Any],
    outputs: int = 1,
    *,
    version: int = 13,
    domain: str = "",
    **given: Any,
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return a model of one operator, with types where ONNX infers them, and what it is fed."""
    model, feeds = contrib_sketch.one(
        kind, inputs, outputs, version=version, domain=domain, **given
    )
    return (model if domain else onnx.shape_inference.infer_shapes(model)), feeds


def simplified(model: onnx.ModelProto) -> onnx.ModelProto:
    simple = simplify(model)
    assert not set(kinds(simple)) & {n.op_type for n in model.graph.node}
    return simple


def outputs(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    return run_on(simplified(model), feeds)


@pytest.mark.parametrize("opset", [10, 13, 21])
@pytest.mark.parametrize(
    ("dtype", "zero"), [(np.uint8, 0), (np.uint8, 131), (np.int8, 0), (np.int8, -7)]
)
def test_rounding_is_half_to_even_and_saturates(dtype: type, zero: int, opset: int) -> None:
    ties = np.arange(-600, 600, dtype=np.float32) / 2
    numbers = np.concatenate([ties, np.float32([1e9, -1e9, np.inf, -np.inf])])
    model, feeds = one(
        "QuantizeLinear", [numbers * 0.5, np.float32(0.5), dtype(zero)], version=opset
    )
    (result,) = outputs(model, feeds)
    limits = np.iinfo(dtype)
    expected = np.clip(np.rint(numbers) + zero, limits.min, limits.max).astype(dtype)
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("variable", [1, 3])
@pytest.mark.parametrize("kind", ["QuantizeLinear", "DequantizeLinear"])
def test_scales_and_zero_points_of_channels(kind: str, variable: int) -> None:
    scale, zero = np.float32([0.5, 0.25, 3.0]), integers(3)
    data = RNG.standard_normal((2, 3, 5)).astype(np.float32) * 90
    source = data if kind == "QuantizeLinear" else integers(2, 3, 5)
    model, feeds = one(kind, [source, scale, zero], variable=variable, axis=-2)
    (result,), (expected,) = outputs(model, feeds), run_on(model, feeds)
    assert np.array_equal(result, expected)


def test_constants_are_dequantised_at_once() -> None:
    for dtype in (TensorProto.INT4, TensorProto.INT8):
        codes = helper.make_tensor("w", dtype, [4, 2], [-8, 7, 0, 1, 2, 3, -4, 5])
        scale = numpy_helper.from_array(np.float32([[0.5, 1], [2, 3]]), "s")
        nodes = [
            helper.make_node("DequantizeLinear", ["w", "s"], ["v"], axis=0, block_size=2),
            helper.make_node("MatMul", ["x", "v"], ["y"]),
        ]
        ends = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, [3, e])
            for n, e in (("x", 4), ("y", 2))
        ]
        graph = helper.make_graph(nodes, "blocks", ends[:1], ends[1:], [codes, scale])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        simple = simplify(model)
        assert kinds(simple) == ["MatMul"]
        x = RNG.standard_normal((3, 4)).astype(np.float32)
        weight = np.float32([[-4, 7], [0, 1], [4, 9], [-8, 15]])
        assert np.allclose(run_on(simple, {"x": x})[0], x @ weight, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("zeros", ["none", "numbers", "rows and columns"])
@pytest.mark.parametrize("variable", [1, 2])
@pytest.mark.parametrize("terms", [7, 300, 1000])
def test_products_of_integers_are_exact(dtype: type, zeros: str, variable: int, terms: int) -> None:
    a, b = integers(5, terms, dtype=dtype), integers(terms, 6, dtype=dtype)
    # The largest sums, which float32 alone would round.
    a[0], b[:, 0] = np.iinfo(dtype).max, np.iinfo(dtype).max
    a_zero, b_zero = {
        "none": (None, None),
        "numbers": (dtype(3), dtype(1)),
        "rows and columns": (integers(5, dtype=dtype), integers(6, dtype=dtype)),
    }[zeros]
    model, feeds = one("MatMulInteger", [a, b, a_zero, b_zero], variable=variable)
    left, right = a.astype(np.int32), b.astype(np.int32)
    if a_zero is not None:
        left = left - np.asarray(a_zero, np.int32).reshape(-1, 1)
        right = right - np.asarray(b_zero, np.int32)
    (result,) = outputs(model, feeds)
    assert result.dtype == np.int32
    assert np.array_equal(result, left @ right)


@pytest.mark.parametrize("variable", [1, 2])
@pytest.mark.parametrize(("channels", "group"), [(3, 1), (200, 1), (8, 4)])
def test_convolutions_of_integers_are_exact(channels: int, group: int, variable: int) -> None:
    x, w = integers(1, channels, 6, 5), integers(8, channels // group, 3, 3)
    x[:, :, 0], w[0] = 255, 255
    model, feeds = one(
        "ConvInteger",
        [x, w, np.uint8(2), np.uint8(77)],
        variable=variable,
        pads=[1, 0, 1, 2],
        strides=[2, 1],
        group=group,
    )
    assert np.array_equal(outputs(model, feeds)[0], run_on(model, feeds)[0])


def test_groups_of_too_many_channels_are_refused() -> None:
    x, w = integers(1, 1200, 3, 3), np.full((2, 600, 3, 3), 255, np.uint8)
    model, _ = one("ConvInteger", [x, w], group=2)
    with refused(GraphError, "one", "ConvInteger", "exactly"):
        simplify(model)


@pytest.mark.parametrize("weight", [np.uint8, np.int8])
@pytest.mark.parametrize("per_channel", [False, True])
def test_qlinear_conv(weight: type, per_channel: bool) -> None:
    x, w = integers(1, 6, 9, 8), integers(4, 6, 3, 3, dtype=weight)
    scale = np.float32(RNG.uniform(0.5, 1.5, 4)) if per_channel else np.float32(0.7)
    zero = np.zeros(4, weight) if per_channel else weight(5)
    bias = RNG.integers(-9999, 9999, 4).astype(np.int32)
    inputs = [
        x,
        np.float32(0.3),
        np.uint8(120),
        w,
        scale,
        zero,
        np.float32(190),
        np.uint8(99),
        bias,
    ]
    model, feeds = one("QLinearConv", inputs, auto_pad="SAME_UPPER", strides=[2, 2])
    (result,), (expected,) = outputs(model, feeds), run_on(model, feeds)
    assert np.array_equal(result, expected)
    assert len(np.unique(result)) > 9


@pytest.mark.parametrize("rank", [2, 3])
def test_qlinear_matmul(rank: int) -> None:
    a, b = integers(*(2, 5, 40)[-rank:]), integers(40, 6, dtype=np.int8)
    inputs = [a, np.float32(0.02), np.uint8(7), b, np.float32(0.11), np.int8(3)]
    model, feeds = one("QLinearMatMul", [*inputs, np.float32(0.9), np.uint8(128)])
    assert np.array_equal(outputs(model, feeds)[0], run_on(model, feeds)[0])


@pytest.mark.parametrize("numbers", ["normal", "positive", "negative", "zeros"])
def test_dynamic_quantisation(numbers: str) -> None:
    x = RNG.standard_normal((3, 40)).astype(np.float32)
    x = {"normal": x, "positive": np.abs(x), "negative": -np.abs(x), "zeros": 0 * x}[numbers]
    model, feeds = one("DynamicQuantizeLinear", [x], 3, version=11)
    for result, expected in zip(outputs(model, feeds), run_on(model, feeds), strict=True):
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        assert np.array_equal(result, expected)


@pytest.mark.parametrize("terms", [7, 300, 1000])
def test_zero_points_that_are_computed_are_taken_off_the_sums(terms: int) -> None:
    """So products read bytes; more terms than float32 adds up exactly are in parts."""
    weight = integers(terms, 6, dtype=np.int8)
    weight[:, 0] = 127
    of_all = ("float[5, k] x", "q, s, z = DynamicQuantizeLinear (x)", ", uint8[5, k] q, uint8 z")
    of_rows = ("uint8[5, k] q, uint8[5] z", "", "")
    for given, made, read in (of_all, of_rows):
        model = onnx.parser.parse_model(f"""
            <ir_version: 8, opset_import: ["" : 17]>
            drawn ({given}) => (int32[5, 6] y{read})
            {{
                {made}
                y = MatMulInteger (q, w, z)
            }}
        """)
        model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
        for port in (*model.graph.input, *model.graph.output):
            for dim in port.type.tensor_type.shape.dim:
                dim.dim_value = terms if dim.dim_param else dim.dim_value
        x = RNG.standard_normal((5, terms)).astype(np.float32) + 1
        x[0] = x.max()
        feeds = {"x": x} if made else {"q": integers(5, terms), "z": integers(5) | 1}
        y, *others = outputs(model, feeds)
        q, z = others or feeds.values()
        left = q.astype(np.int32) - z.astype(np.int32).reshape(-1, 1)
        assert z.any()
        assert np.array_equal(y, left @ weight.astype(np.int32))
        simple = simplify(model)
        makers = {name: node.op_type for node in simple.graph.node for name in node.output}
        data = [makers[node.input[0]] for node in simple.graph.node if node.op_type == "MatMul"]
        assert len(data) == (2 if terms > 300 else 1)
        assert set(data) <= {"Cast", "Clip", "Split"}


@pytest.mark.parametrize("size", [1, 300])
def test_biases_that_are_rounded_when_a_model_runs_are_added_as_floats(size: int) -> None:
    """Of 300 a bias is more than float32 holds exactly: their sum is rounded once."""
    weight, bias = integers(6, 5, 3, 3, dtype=np.int8), RNG.standard_normal(6).astype(np.float32)
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 12]>
        drawn (float[2, 5, 9, 9] x) => (float[2, 6, 7, 7] y)
        <float ws = {0.0001}, int8 wz = {0}, int64[4] around = {1, 6, 1, 1}>
        {
            q, s, z = DynamicQuantizeLinear (x)
            scale = Mul (s, ws)
            quotient = Div (bias, scale)
            floor = Floor (quotient)
            whole = Cast <to = 6> (floor)
            c = ConvInteger (q, w, z, wz)
            b = Reshape (whole, around)
            sum = Add (c, b)
            float = Cast <to = 1> (sum)
            y = Mul (float, scale)
        }
    """)
    for name, array in (("w", weight), ("bias", size * bias)):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    feeds = {"x": RNG.standard_normal((2, 5, 9, 9)).astype(np.float32)}
    simple = simplify(onnx.shape_inference.infer_shapes(model))
    assert "Cast" not in kinds(simple)
    assert np.array_equal(run_on(simple, feeds)[0], run_on(model, feeds)[0])


@pytest.mark.parametrize("moving", ["Reshape (d, s)", "Concat <axis = 0> (d, c)"])
@pytest.mark.parametrize("kind", ["int32", "float"])
def test_moved_sums_are_of_integers_where_these_are_read(moving: str, kind: str) -> None:
    end = "y = Cast <to = 1> (moved)" if kind == "float" else "y = Identity (moved)"
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 13]>
        drawn (uint8[3, 4] a, uint8[4, 5] b, float[5] x) => ({kind}[n, m] y)
        <int64[2] s = {{5, 3}}>
        {{
            floor = Floor (x)
            whole = Cast <to = 6> (floor)
            c = MatMulInteger (a, b)
            d = Add (c, whole)
            moved = {moving}
            {end}
        }}
    """)
    x = np.array([2**26, 2**26 + 8, -(2**27), 0, 3], np.float32)
    feeds = {"a": integers(3, 4), "b": integers(4, 5), "x": x}
    simple = simplify(onnx.shape_inference.infer_shapes(model))
    assert np.array_equal(run_on(simple, feeds)[0], run_on(model, feeds)[0])


def test_sums_of_sums_are_of_integers() -> None:
    """Rounded floats are added no further: two roundings are not one."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 13]>
        drawn (uint8[3, 4] a, uint8[4, 5] b, float[5] x) => (float[3, 5] y)
        <int32[1] odd = {16777217}, int32[1] one = {1}>
        {
            floor = Floor (x)
            whole = Cast <to = 6> (floor)
            c = MatMulInteger (a, b)
            d = Add (c, whole)
            e = Add (d, odd)
            f = Add (e, one)
            y = Cast <to = 1> (f)
        }
    """)
    feeds = {
        "a": integers(3, 4),
        "b": integers(4, 5),
        "x": np.array([2**24 + 2, -(2**24), 0.5, -0.5, 7], np.float32),
    }
    simple = simplify(onnx.shape_inference.infer_shapes(model))
    assert np.array_equal(run_on(simple, feeds)[0], run_on(model, feeds)[0])


def quantised(*shape: int) -> list[Any]:
    return [integers(*shape), np.float32(RNG.uniform(0.02, 0.05)), np.uint8(RNG.integers(100, 150))]


RESULT = [np.float32(0.04), np.uint8(130)]


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes"),
    [
        ("QLinearAdd", [*quantised(2, 3, 4, 4), *quantised(3, 1, 1), *RESULT], {}),
        ("QLinearMul", [*quantised(2, 3, 4, 4), *quantised(2, 3, 4, 4), *RESULT], {}),
        (
            "QLinearAveragePool",
            [*quantised(1, 3, 6, 6), *RESULT],
            {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
        ),
        ("QLinearGlobalAveragePool", [*quantised(1, 3, 6, 6), *RESULT], {}),
        ("QLinearConcat", [*RESULT, *quantised(2, 3), *quantised(2, 5)], {"axis": 1}),
        ("QLinearLeakyRelu", [*quantised(2, 30), *RESULT], {"alpha": 0.2}),
        ("QLinearSigmoid", [*quantised(2, 30), *RESULT], {}),
        (
            "QLinearSoftmax",
            [*quantised(2, 30), np.float32(1 / 256), np.uint8(0)],
            {"axis": -1, "opset": 13},
        ),
        (
            "QGemm",
            [*quantised(3, 8), *quantised(5, 8), np.arange(5, dtype=np.int32), *RESULT],
            {"transB": 1},
        ),
        ("QGemm", [*quantised(3, 8), *quantised(8, 5), None], {"alpha": 0.5}),
        ("QLinearWhere", [np.eye(4, dtype=bool), *quantised(4, 4), *quantised(4, 4), *RESULT], {}),
    ],
)
def test_operators_of_onnx_runtime(
    kind: str, inputs: list[Any], attributes: dict[str, Any]
) -> None:
    # Of a concatenation the first input is a number.
    variable = 3 if kind == "QLinearConcat" else 1
    model, feeds = one(kind, inputs, variable=variable, domain="com.microsoft", **attributes)
    (result,), (expected,) = outputs(model, feeds), run_on(model, feeds)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    # It rounds some of them by tables and integers: a step more or less.
    assert np.abs(result.astype(np.float32) - expected).max() <= (
        1 if result.dtype == np.uint8 else 1e-4
    )
