"""Operators that TVM's importer lacks, or that are no kernels there, compute what ONNX says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from relay_passes.relax.importer import import_onnx
from tests.onnx_sketch import Sketch
from tests.relax.relax_sketch import sequential_outputs
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.simplify import simplify

#: An operator of ``x``; what is of another type than float32 is cast at its end.
Operator = Callable[[Sketch], str]


def narrow(kind: str, to: int = TensorProto.FLOAT16, **attributes: Any) -> Operator:
    """An operator of one input in another type."""

    def write(s: Sketch) -> str:
        result = s.op(kind, s.op("Cast", "x", to=to), **attributes)
        return s.op("Cast", result, to=TensorProto.FLOAT)

    return write


def integers(s: Sketch, times: float = 8.0, to: int = TensorProto.INT64) -> str:
    """The input as whole numbers, some of them negative."""
    return s.op("Cast", s.op("Mul", "x", s.const(times)), to=to)


def power(base: int, exponent: int, *exponents: int) -> Operator:
    """Numbers of one type to powers of another."""

    def write(s: Sketch) -> str:
        types = {TensorProto.FLOAT: np.float32, TensorProto.INT32: np.int32}
        number = s.const(np.array(exponents, types.get(exponent, np.int64)))
        return s.op("Cast", s.op("Pow", integers(s, to=base), number), to=TensorProto.FLOAT)

    return write


def computed_power(s: Sketch) -> str:
    exponent = s.op("Abs", integers(s, 2.0, TensorProto.INT32))
    power = s.op("Pow", integers(s, 3.0, TensorProto.INT32), exponent)
    return s.op("Cast", power, to=TensorProto.FLOAT)


def truths(kind: str, **attributes: Any) -> Operator:
    def write(s: Sketch) -> str:
        extreme = s.op(kind, s.op("Greater", "x", s.const(0.5)), **attributes)
        return s.op("Cast", extreme, to=TensorProto.FLOAT)

    return write


def reversed_sequences(batch_axis: int, time_axis: int, *lengths: int) -> Operator:
    axes = {"batch_axis": batch_axis, "time_axis": time_axis}
    return lambda s: s.op("ReverseSequence", "x", s.const(np.array(lengths)), **axes)


def cache(mode: str, axis: int, update: tuple[int, ...], *begins: int) -> Operator:
    def write(s: Sketch) -> str:
        inputs = ["x", s.normal(*update), s.const(np.array(begins))]
        return s.op("TensorScatter", *inputs, mode=mode, axis=axis)

    return write


def columns(image: list[int], block: list[int], **attributes: Any) -> Operator:
    return lambda s: s.op(
        "Col2Im", "x", s.const(np.array(image)), s.const(np.array(block)), **attributes
    )


def pooled_indices(**attributes: Any) -> Operator:
    def write(s: Sketch) -> str:
        largest, index = s.op("MaxPool", "x", outputs=2, **attributes)
        return s.op("Add", largest, s.op("Cast", index, to=TensorProto.FLOAT))

    return write


def deformed(results: int, kernel: int, masked: bool, **attributes: Any) -> Operator:
    def write(s: Sketch) -> str:
        group = attributes.get("group", 1)
        groups = attributes.get("offset_group", 1)
        points = kernel * kernel * groups
        # Offsets of up to two pixels, which are not the same for any two.
        rows = s.op("Conv", "x", s.normal(2 * points, 4, kernel, kernel), **plain(attributes))
        offset = s.op("Tanh", s.op("Mul", rows, s.const(0.2)))
        offset = s.op("Mul", offset, s.const(2.0))
        inputs = ["x", s.normal(results, 4 // group, kernel, kernel), offset]
        if masked:
            mask = s.op("Conv", "x", s.normal(points, 4, kernel, kernel), **plain(attributes))
            inputs += [s.normal(results), s.op("Sigmoid", mask)]
        return s.op("DeformConv", *inputs, **attributes)

    return write


def plain(attributes: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in attributes.items() if not k.endswith("group")}


def bits(to: int, then: int) -> Operator:
    def write(s: Sketch) -> str:
        cast = s.op("BitCast", integers(s, 3.0, to), to=then)
        return s.op("Cast", cast, to=TensorProto.FLOAT)

    return write


def product_along(axis: int, **attributes: Any) -> Operator:
    return lambda s: s.op("CumProd", "x", s.const(np.array(axis)), **attributes)


def n_grams(**attributes: Any) -> Operator:
    def write(s: Sketch) -> str:
        tokens = s.op("Cast", s.op("Mul", s.op("Abs", "x"), s.const(2.0)), to=TensorProto.INT64)
        return s.op("TfIdfVectorizer", tokens, **attributes)

    return write


POOL: dict[str, Any] = {
    "min_gram_length": 1,
    "max_gram_length": 2,
    "ngram_counts": [0, 3],
    "ngram_indexes": list(range(6)),
    "pool_int64s": [0, 1, 2, 0, 1, 1, 1, 2, 0],
}

CASES: dict[str, tuple[tuple[int, ...], Operator]] = {
    "elu in float16": ((2, 9), narrow("Elu", alpha=1.5)),
    "elu in float64": ((2, 9), narrow("Elu", TensorProto.DOUBLE, alpha=1.5)),
    "selu in float16": ((2, 9), narrow("Selu")),
    "selu in float64": ((2, 9), narrow("Selu", TensorProto.DOUBLE, gamma=2.0)),
    "thresholded relu in float16": ((2, 9), narrow("ThresholdedRelu", alpha=0.5)),
    "sinh in float16": ((2, 9), narrow("Sinh")),
    "atan in float16": ((2, 9), narrow("Atan")),
    "integers to 2 and 3": ((3, 2), power(TensorProto.INT64, TensorProto.INT64, 2, 3)),
    "integers squared": ((3, 2), power(TensorProto.INT32, TensorProto.INT64, 2)),
    "integers to an integer": ((3, 2), power(TensorProto.INT32, TensorProto.FLOAT, 3)),
    "floats to integers": ((3, 2), power(TensorProto.FLOAT, TensorProto.INT32, 3, 0)),
    "integers to integers that are computed": ((3, 4), computed_power),
    "any": ((3, 4), truths("ReduceMax", axes=[1], keepdims=0)),
    "all": ((3, 4), truths("ReduceMin")),
    "norm of squares": ((3, 4, 5), lambda s: s.op("LpNormalization", "x", p=2)),
    "norm of zeros": (
        (3, 4),
        lambda s: s.op("LpNormalization", s.op("Mul", "x", s.const(0.0)), axis=0, p=2),
    ),
    "norm in float16": ((3, 400), narrow("LpNormalization", axis=1, p=2)),
    "root mean square of all": (
        (3, 4),
        lambda s: s.op("RMSNormalization", "x", s.positive(3, 4), axis=0, epsilon=0.1),
    ),
    "determinant of one number": ((4, 1, 1), lambda s: s.op("Det", "x")),
    "determinant": ((5, 5), lambda s: s.op("Det", "x")),
    "determinants": ((2, 3, 4, 4), lambda s: s.op("Det", "x")),
    "determinant of a singular matrix": (
        (3, 3),
        lambda s: s.op("Det", s.op("Mul", "x", s.const([[1.0], [0.0], [1.0]]))),
    ),
    "sequences reversed along the first axis": (
        (5, 3, 2),
        reversed_sequences(1, 0, 1, 5, 3),
    ),
    "sequences reversed along the second axis": ((3, 5), reversed_sequences(0, 1, 0, 2, 5)),
    "cache": ((2, 3, 7, 4), cache("linear", -2, (2, 3, 2, 4), 1, 5)),
    "cache around": ((2, 7, 4), cache("circular", 1, (2, 3, 4), 6, 3)),
    "columns": ((1, 12, 9), columns([4, 4], [2, 2])),
    "columns with pads and strides": (
        (2, 18, 6),
        columns([5, 6], [3, 3], pads=[0, 1, 1, 0], strides=[2, 2], dilations=[1, 1]),
    ),
    "columns of one axis, dilated": ((2, 6, 5), columns([9], [3], dilations=[2])),
    "indices of a pool": ((2, 3, 7, 8), pooled_indices(kernel_shape=[3, 2], strides=[2, 2])),
    "indices of a pool beyond the image": (
        (1, 2, 6, 5),
        pooled_indices(kernel_shape=[3, 3], pads=[1, 1, 1, 1], dilations=[2, 1], storage_order=0),
    ),
    "indices of a pool of rows": (
        (2, 2, 9),
        pooled_indices(kernel_shape=[2], strides=[2], auto_pad="SAME_UPPER"),
    ),
    "deformable": ((1, 4, 6, 7), deformed(3, 3, False, pads=[1, 1, 1, 1])),
    "deformable with masks, groups and strides": (
        (2, 4, 7, 6),
        deformed(4, 2, True, group=2, offset_group=2, strides=[2, 1], dilations=[1, 2]),
    ),
    "bits of floats": ((3, 4), bits(TensorProto.FLOAT, TensorProto.INT32)),
    "bits of integers": ((3, 4), bits(TensorProto.INT64, TensorProto.UINT64)),
    "products along an axis": ((3, 4, 5), product_along(1)),
    "products before, from the end": ((3, 4, 5), product_along(-1, exclusive=1, reverse=1)),
    "transform of real numbers to one side": (
        (2, 9, 1),
        lambda s: s.op("DFT", "x", s.const(np.array(12)), s.const(np.array(1)), onesided=1),
    ),
    "transform back to real numbers": (
        (2, 3, 5, 2),
        lambda s: s.op("DFT", "x", "", s.const(np.array(1)), onesided=1, inverse=1),
    ),
    "transform of complex numbers back": ((2, 7, 2), lambda s: s.op("DFT", "x", inverse=1)),
    "transform of opset 17": ((2, 7, 3, 1), lambda s: s.op("DFT", "x", axis=2)),
    "transforms of frames": (
        (2, 30, 1),
        # ONNX infers the shape of it without the default.
        lambda s: s.op("STFT", "x", s.const(np.array(4)), s.positive(9), onesided=1),
    ),
    "n-grams": ((3, 6), n_grams(mode="TF", max_skip_count=0, **POOL)),
    "n-grams with skips": (
        (12,),
        n_grams(mode="TFIDF", max_skip_count=2, weights=[0.5, 1, 2, 3, 4, 5], **POOL),
    ),
    "n-grams that are there": (
        (3, 6),
        n_grams(mode="IDF", max_skip_count=1, weights=[2.0, 1.0, 2.0, 1.0, 2.0, 3.0], **POOL),
    ),
}


def check(shape: tuple[int, ...], operator: Operator, opset: int, rtol: float) -> None:
    sketch = Sketch(*shape, opset=opset)
    model = sketch.model(operator(sketch))
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(built(model, x), expected[0], rtol=rtol, atol=rtol / 10)


def built(model: Any, x: Array) -> Array:
    """The model's output, each kernel's tiles divided among two lanes."""
    return sequential_outputs(import_onnx(simplify(model)), [x], lanes=2)[0]


#: What a case of the same operator computes as well, in less time.
LONG = ("determinants", "deformable with masks, groups and strides", "n-grams with skips")


@pytest.mark.parametrize(
    ("shape", "operator"),
    [
        pytest.param(*case, id=name, marks=pytest.mark.slow if name in LONG else ())
        for name, case in CASES.items()
    ],
)
def test_operator(
    shape: tuple[int, ...], operator: Operator, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    opset = next((n for start, n in _OPSETS.items() if name.startswith(start)), 22)
    check(shape, operator, opset, 2e-3 if "float16" in name else 1e-4)


#: Of operators that are newer, or whose axes are attributes.
_OPSETS = {
    "transform of opset 17": 17,
    "bits": 26,
    "products": 26,
    "cache": 24,
    "root": 23,
    "any": 17,
    "all": 20,
}


def test_norm_of_magnitudes() -> None:
    """ONNX's reference sums numbers with their signs."""
    sketch = Sketch(3, 4, 5, opset=22)
    model = sketch.model(sketch.op("LpNormalization", "x", axis=1, p=1))
    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
    expected = x / np.abs(x).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(built(model, x), expected, rtol=1e-5)


@pytest.mark.parametrize("storage_order", [0, 1])
def test_indices_of_equal_pixels_are_the_first(storage_order: int) -> None:
    sketch = Sketch(1, 2, 4, 5)
    attributes = {"kernel_shape": [2, 3], "storage_order": storage_order}
    _, index = sketch.op("MaxPool", "x", outputs=2, **attributes)
    model = sketch.model(sketch.op("Cast", index, to=TensorProto.FLOAT))
    x = np.ones((1, 2, 4, 5), np.float32)
    output = built(model, x)
    rows, columns, planes = np.arange(3)[:, None], np.arange(3), np.arange(2) * 20
    pixels = columns * 4 + rows if storage_order else rows * 5 + columns
    np.testing.assert_array_equal(output[0], pixels + planes[:, None, None])


@pytest.mark.parametrize("kind", ["MatMul", "Conv", "Softmax", "ReduceMean"])
def test_long_sums_of_float16(kind: str) -> None:
    """In float16 a sum of ones ends at 2,048."""
    sketch = Sketch(4, 4096)
    half = sketch.op("Cast", "x", to=TensorProto.FLOAT16)
    expected = {"MatMul": 4096, "Conv": 4096, "Softmax": 1 / 4096, "ReduceMean": 1}[kind]
    if kind == "Softmax":
        result = sketch.op("Softmax", half, axis=1)
    elif kind == "ReduceMean":
        result = sketch.op("ReduceMean", half, axes=[1])
    else:
        shape = [4096, 3] if kind == "MatMul" else [3, 4096, 1, 1]
        ones = sketch.op("Cast", sketch.const(np.ones(shape)), to=TensorProto.FLOAT16)
        if kind == "Conv":
            half = sketch.op("Reshape", half, sketch.const(np.array([4, 4096, 1, 1])))
        result = sketch.op(kind, half, ones)
    model = sketch.model(sketch.op("Cast", result, to=TensorProto.FLOAT))
    output = built(model, np.ones((4, 4096), np.float32))
    assert np.all(output == expected)


@pytest.mark.parametrize("kind", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_a_window_has_the_length_of_the_result(kind: str) -> None:
    """Also where the length is an input; here what it is multiplied by says it."""
    sketch = Sketch(10, opset=22)
    sketch.inputs.append(helper.make_tensor_value_info("size", TensorProto.INT64, []))
    window = sketch.op(kind, "size")
    model = sketch.model(sketch.op("Mul", "x", window))
    del model.graph.value_info[:]
    model.graph.value_info.append(helper.make_tensor_value_info(window, TensorProto.FLOAT, [10]))
    simplified = simplify(model)
    feeds = {"x": np.ones(10, np.float32), "size": np.array(10)}
    expected = ReferenceEvaluator(model).run(None, feeds)
    outputs = ReferenceEvaluator(simplified).run(None, feeds)
    np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-6)
    assert kind not in {node.op_type for node in simplified.graph.node}


def test_a_range_as_long_as_what_is_computed_of_it() -> None:
    sketch = Sketch(opset=22)
    scale = sketch.op("Mul", "x", sketch.const(0.5))
    row = sketch.op("Range", sketch.const(1.0), "x", sketch.const(0.5))
    parts = [sketch.op("Cos", sketch.op("Mul", row, scale)), sketch.op("Mul", row, scale)]
    model = sketch.model(sketch.op("Add", *parts))
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info(model.graph.output[0].name, TensorProto.FLOAT, [6])
    )
    simplified = simplify(model)
    assert "Range" not in {node.op_type for node in simplified.graph.node}
    feeds = {"x": np.array(4.0, np.float32)}
    expected = ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_allclose(
        ReferenceEvaluator(simplified).run(None, feeds)[0], expected[0], rtol=1e-6
    )


def test_slices_by_attributes() -> None:
    """As models before opset 10 have them."""
    sketch = Sketch(2, 5, 6, opset=9)
    model = sketch.model(sketch.op("Slice", "x", axes=[1, 2], starts=[1, -3], ends=[9, -1]))
    x = np.random.default_rng(0).standard_normal((2, 5, 6)).astype(np.float32)
    np.testing.assert_array_equal(built(model, x), x[:, 1:, -3:-1])
