from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.fast_run import examples
from tests.onnx_sketch import Sketch, kinds, relative_error, run_on, simplify_checked
from tests.refusals import refused
from tvm_ios import zoo
from tvm_ios.onnx.shape_inference import infer_shapes
from tvm_ios.onnx.simplify import simplify
from tvm_ios.onnx.supported import require_supported
from tvm_ios.shapes.input_shapes import InputShapeError


def conv_norm(s: Sketch) -> str:
    return s.norm(s.conv("x", 4, 6), 6)


def shared_weight(s: Sketch) -> str:
    weight = s.normal(6, 4, 1, 1)
    return s.op("Sub", *(s.norm(s.op("Conv", "x", weight), 6) for _ in range(2)))


def caffe_scale(s: Sketch) -> str:
    y = s.norm(s.conv("x", 4, 6), 6)
    return s.op("Add", s.op("Mul", y, s.normal(6, 1, 1)), s.normal(1, 6, 1, 1))


def scale_without_convolution(s: Sketch) -> str:
    y = s.norm(s.op("Relu", "x"), 4)
    return s.op("Add", s.op("Mul", y, s.normal(4, 1, 1)), s.normal(4, 1, 1))


def convolution_that_others_read(s: Sketch) -> tuple[str, str]:
    y = s.conv("x", 4, 6)
    return s.norm(y, 6), s.op("Relu", y)


def concat_that_others_read(s: Sketch) -> tuple[str, str]:
    joined = s.op("Concat", s.conv("x", 4, 2), s.conv("x", 4, 3), axis=1)
    return s.norm(joined, 5), joined


def scalars(s: Sketch) -> str:
    y = s.op("Sub", s.op("Div", s.conv("x", 4, 6), s.const(2.0)), s.const(0.5))
    return s.op("Mul", s.const(3.0), y)


def gemm(s: Sketch) -> str:
    flat = s.op("Flatten", "x")
    y = s.op("Gemm", flat, s.normal(7, 256), s.normal(1, 7), transB=1, alpha=0.5, beta=2.0)
    return s.op("Gemm", s.op("Relu", y), s.normal(7, 3))


def sum_of_many(s: Sketch) -> str:
    row = s.op("GlobalAveragePool", "x")
    return s.op("Sum", row, row, "x", s.op("Relu", "x"))


def padded(s: Sketch) -> str:
    pads = s.const(np.array([0, 0, 1, 2, 0, 0, 0, 1]))
    return s.op("Conv", s.op("Pad", "x", pads), s.normal(6, 4, 3, 3))


def sliced(s: Sketch, y: str, *numbers: int) -> str:
    return s.op("Slice", y, *(s.const(np.array([n])) for n in numbers))


def nothing(s: Sketch) -> str:
    y = s.op("Identity", s.op("Dropout", s.conv("x", 4, 6)))
    y = s.op("Reshape", y, s.const(np.array([1, 6, 8, 8])))
    return s.op("Concat", s.op("Dropout", sliced(s, y, 0, 99, 2)), axis=1)


def transposed(shape: tuple[int, ...], **attributes: Any) -> Callable[[Sketch], str]:
    return lambda s: s.op("ConvTranspose", "x", s.normal(*shape), **attributes)


#: The outputs by name, and the operators that are left of them.
FOLDED: dict[str, tuple[Callable[[Sketch], str | tuple[str, ...]], list[str]]] = {
    "conv_norm": (conv_norm, ["Conv"]),
    "conv_bias_norm": (
        lambda s: s.norm(s.op("Conv", "x", s.normal(6, 4, 3, 3), s.normal(6)), 6),
        ["Conv"],
    ),
    "hard_swish": (
        lambda s: s.op("HardSwish", s.conv("x", 4, 6)),
        ["Add", "Clip", "Conv", "Mul", "Mul"],
    ),
    "hard_sigmoid": (
        lambda s: s.op("HardSigmoid", s.conv("x", 4, 6), alpha=0.3),
        ["Clip", "Conv"],
    ),
    "transposed_same": (
        transposed((4, 2, 5, 3), strides=[2, 3], auto_pad="SAME_LOWER"),
        ["ConvTranspose"],
    ),
    "transposed_to_a_shape": (
        transposed((4, 2, 3, 3), strides=[2, 2], output_shape=[16, 17]),
        ["ConvTranspose"],
    ),
    "shared_weight": (shared_weight, ["Conv", "Conv", "Sub"]),
    "concat_norm": (
        lambda s: s.norm(s.op("Concat", s.conv("x", 4, 2), s.conv("x", 4, 3, 1), axis=1), 5),
        ["Concat", "Conv", "Conv"],
    ),
    "caffe_scale": (caffe_scale, ["Conv"]),
    "scalars": (scalars, ["Conv"]),
    "gemm": (gemm, ["Flatten", "Gemm", "Gemm", "Relu"]),
    "matmul_bias": (
        lambda s: s.op("Add", s.normal(5), s.op("MatMul", s.op("Flatten", "x"), s.normal(256, 5))),
        ["Flatten", "Gemm"],
    ),
    "padded": (padded, ["Conv"]),
    "nothing": (nothing, ["Conv"]),
    "backwards": (lambda s: sliced(s, s.op("Relu", "x"), -1, -99, 3, -1), ["Relu", "Slice"]),
    "a scale without convolution": (scale_without_convolution, ["Add", "Mul", "Relu"]),
    # What others read keeps its weights.
    "a convolution that others read": (
        convolution_that_others_read,
        ["Add", "Conv", "Mul", "Relu"],
    ),
    "a concat that others read": (
        concat_that_others_read,
        ["Add", "Concat", "Conv", "Conv", "Mul"],
    ),
    "a sum of many": (sum_of_many, ["Add", "Add", "Add", "GlobalAveragePool", "Relu"]),
}


@pytest.mark.parametrize("name", FOLDED)
def test_folds_without_changing_the_result(name: str) -> None:
    build, expected = FOLDED[name]
    sketch = Sketch(1, 4, 8, 8)
    built = build(sketch)
    simple = simplify_checked(sketch.model(*([built] if isinstance(built, str) else built)))
    onnx.checker.check_model(simple, full_check=True)
    assert kinds(simple) == expected


@pytest.mark.parametrize("around", ["Div", "Mul"])
def test_a_difference_is_taken_before_it_is_multiplied(around: str) -> None:
    """Of numbers near each other: the difference of their products is another number."""
    s = Sketch(1, 3, 5)
    difference = s.op("Sub", "x", s.const([1e4]))
    model = s.model(s.op("Mul", s.op(around, difference, s.const([3e3])), s.const([7.0])))
    feeds = {"x": np.float32(1e4) + np.linspace(-1, 1, 15, dtype=np.float32).reshape(1, 3, 5)}
    simplify_checked(model, feeds, within=1e-6)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("kind", ["Conv", "MaxPool", "AveragePool"])
def test_automatic_pads_become_numbers(kind: str, mode: str) -> None:
    s = Sketch(1, 4, 10, 9)
    if kind == "Conv":
        y = s.op("Conv", "x", s.normal(5, 4, 3, 2), auto_pad=mode, strides=[2, 1])
    else:
        y = s.op(kind, "x", kernel_shape=[3, 2], auto_pad=mode, strides=[2, 1])
    model = s.model(y)
    simple = simplify_checked(model)
    names = [attribute.name for attribute in simple.graph.node[0].attribute]
    assert "pads" in names
    assert "auto_pad" not in names


@pytest.mark.parametrize("is_constant", [True, False])
def test_what_is_multiplied_by_no_beta_may_be_nan(is_constant: bool) -> None:
    s = Sketch(2, 3)
    addend = np.array([np.nan, np.inf], np.float32)
    feeds = {"x": np.ones((2, 3), np.float32)}
    name = s.const(addend) if is_constant else "c"
    if not is_constant:
        s.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, (2,)))
        feeds[name] = addend
    model = s.model(s.op("Gemm", "x", s.normal(3, 2), name, beta=0.0))
    simple = simplify_checked(model, feeds, within=1e-6)
    (gemm,) = simple.graph.node
    assert len([read for read in gemm.input if read]) == 2, "TVM multiplies by zero"


@pytest.mark.parametrize("mode", ["wrap", "edge", "reflect"])
@pytest.mark.parametrize("pads", [[1, -1, 0, 2], [0, -2, 0, 1], [-1, 0, 1, -1]], ids=str)
def test_a_pad_that_copies_what_another_one_left(mode: str, pads: list[int]) -> None:
    """ONNX does not say which is first; ONNX Runtime crops and then copies. TVM does otherwise."""
    s = Sketch(3, 4, opset=19)
    model = s.model(s.op("Pad", "x", s.const(np.array(pads)), mode=mode))
    simple = simplify_checked(model, within=0)
    assert {*kinds(simple)} == {"Gather"}


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_a_pad_that_copies_becomes_gathers(mode: str) -> None:
    sketch = Sketch(1, 2, 5, 6, opset=18)
    widths = sketch.const(np.array([2, 0, 1, 3]))
    axes = sketch.const(np.array([-2, 3]))
    model = sketch.model(sketch.op("Pad", "x", widths, "", axes, mode=mode))
    simple = simplify_checked(model, within=0)
    assert kinds(simple) == ["Gather", "Gather"]


def test_a_mean_of_many_is_their_sum_divided() -> None:
    s = Sketch(2, 3)
    model = s.model(s.op("Mean", "x", s.normal(3), s.op("Relu", "x")))
    simple = simplify_checked(model, within=1e-6)
    assert kinds(simple) == ["Add", "Add", "Div", "Relu"]


def test_a_concat_of_very_many_is_of_fewer() -> None:
    """TVM's passes call themselves for each operand: thousands would end the process."""
    s = Sketch(2, 4)
    parts = [s.op("Slice", "x", *(s.const([n]) for n in (i % 4, i % 4 + 1, 1))) for i in range(130)]
    model = s.model(s.op("Concat", *parts, axis=1))
    simple = simplify_checked(model, within=0)
    assert [len(n.input) for n in simple.graph.node if n.op_type == "Concat"] == [64, 64, 2, 3]


@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize("shape", [(1, 12, 40, 25), (3, 5 * 7 * 11 * 13), (8192,), (4099,), (9, 9)])
def test_an_extreme_of_very_many_is_of_vectors(
    kind: str, opset: int, shape: tuple[int, ...]
) -> None:
    for keepdims in (0, 1):
        s = Sketch(*shape, opset=opset)
        simple = simplify_checked(s.model(s.op(kind, "x", keepdims=keepdims)), within=0)
        assert kinds(simple).count(kind) == (1 if shape in ((4099,), (9, 9)) else 2)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
@pytest.mark.parametrize(("shape", "kind"), [((5, 6), "i8"), ((5, 6, 4), "i4"), ((5, 1), "i8")])
def test_a_scatter_of_rows_has_an_index_for_each(
    shape: tuple[int, ...], kind: str, reduction: str
) -> None:
    """Also of negative ones, and of one row several times where they are combined."""
    count = 3 if reduction == "none" else 9
    s = Sketch(*shape, opset=18)
    rows = np.array([4, -5, 2] * (count // 3), kind).reshape(-1, *(1 for _ in shape[1:]))
    element = helper.np_dtype_to_tensor_dtype(rows.dtype)
    s.inputs.append(helper.make_tensor_value_info("rows", element, rows.shape))
    column = s.op("Expand", "rows", s.const(np.array([count, *shape[1:]])))
    added = s.normal(count, *shape[1:])
    model = s.model(s.op("ScatterElements", "x", column, added, axis=0, reduction=reduction))
    x = s.rng.standard_normal(shape).astype(np.float32)
    simple = simplify_checked(model, {"x": x, "rows": rows}, within=1e-6)
    assert "ScatterND" in kinds(simple)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_an_old_softmax_over_several_axes_says_so(axis: int) -> None:
    s = Sketch(2, 4, 3, opset=9)
    model = s.model(s.op("Softmax", s.op("Relu", "x"), axis=axis))
    simple = simplify_checked(model, within=1e-6)
    assert kinds(simple) == ["Relu", "Reshape", "Reshape", "Softmax"]


def test_equal_operators_stay_separate() -> None:
    s = Sketch(1, 4, 8, 8)
    pools = [s.op("AveragePool", "x", kernel_shape=[2, 2]) for _ in range(2)]
    assert kinds(simplify(s.model(s.op("Add", *pools)))) == ["Add", "AveragePool", "AveragePool"]


def test_weights_listed_as_inputs_are_constants_and_the_dead_go() -> None:
    s = Sketch(1, 4, 8, 8, opset=9)
    y = s.norm(s.conv("x", 4, 6), 6)
    s.op("Relu", "x")
    s.normal(3)
    model = s.model(y)
    for weight in s.initializers:
        value = helper.make_tensor_value_info(weight.name, TensorProto.FLOAT, weight.dims)
        model.graph.input.append(value)
    model.ir_version = 3
    simple = simplify(model)
    onnx.checker.check_model(simple, full_check=True)
    assert [value.name for value in simple.graph.input] == ["x"]
    assert kinds(simple) == ["Conv"]
    assert len(simple.graph.initializer) == 2


def test_shapes_computed_from_static_shapes_are_folded() -> None:
    s = Sketch(2, 4, 8, 8)
    batch = s.op("Gather", s.op("Shape", "x"), s.const(np.array([0])))
    shape = s.op("Concat", batch, s.const(np.array([-1])), axis=0)
    model = s.model(s.op("Reshape", s.op("Relu", "x"), shape))
    assert kinds(simplify(model)) == ["Relu", "Reshape"]


def test_the_outputs_keep_names_and_order() -> None:
    s = Sketch(1, 4, 8, 8)
    one, two = s.op("Dropout", s.op("Relu", "x")), conv_norm(s)
    same = s.op("Identity", "x")
    model = s.model(two, one, same)
    simple = simplify_checked(model)
    assert [value.name for value in simple.graph.output] == [two, one, same]


def test_the_model_given_is_not_changed() -> None:
    s = Sketch(1, 4, 8, 8)
    model = s.model(caffe_scale(s))
    before = model.SerializeToString()
    simplify(model)
    assert model.SerializeToString() == before


def test_the_opset_may_be_named_by_its_full_domain() -> None:
    s = Sketch(3, 2, 4)
    model = s.model(s.op("LSTM", "x", s.normal(1, 20, 4), s.normal(1, 20, 5), hidden_size=5))
    expected = simplify(model)
    model.opset_import[0].domain = "ai.onnx"
    onnx.checker.check_model(model)
    assert simplify(model) == expected


def test_simplifying_twice_changes_nothing_more() -> None:
    once = simplify(zoo.build("nasnet_cell"))
    twice = simplify_checked(once, within=0.0)
    assert kinds(once) == kinds(twice)


def test_a_dynamic_dimension_is_named() -> None:
    s = Sketch("batch", 4, 8, 8)
    with refused(InputShapeError, "'x'", "dimension 0", "'batch'", "--shape x:1,4,8,8"):
        simplify(s.model(s.op("Relu", "x")))


@pytest.mark.parametrize("name", ["inception_block", "nasnet_cell", "squeezenet"])
def test_zoo_networks_keep_their_result(name: str) -> None:
    model = zoo.build(name)
    simple = simplify_checked(model)
    onnx.checker.check_model(simple)
    assert "BatchNormalization" not in kinds(simple)


STEPS = ("conv", "norm", "mul", "add", "div", "sub", "relu", "concat", "tap", "scalar")


@examples(60)
@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=9), st.integers(0, 1000))
def test_random_chains_keep_their_result(steps: list[str], seed: int) -> None:
    s = Sketch(1, 3, 5, 5, seed=seed)
    y, channels = "x", 3
    outputs: list[Any] = []
    for step in steps:
        if step == "conv":
            y, channels = s.conv(y, channels, 4), 4
        elif step == "norm":
            y = s.norm(y, channels)
        elif step == "relu":
            y = s.op("LeakyRelu", y)  # nothing vanishes
        elif step == "concat":
            y = s.op("Concat", s.conv(y, channels, 2, 1), s.conv(y, channels, 1), axis=1)
            channels = 3
        elif step == "tap":
            outputs.append(y if y != "x" else s.op("LeakyRelu", y))
        elif step == "scalar":
            y = s.op("Mul", y, s.const(0.5))
        else:
            y = s.op(step.capitalize(), y, s.positive(channels, 1, 1))
    if y == "x":
        y = s.op("LeakyRelu", y)
    model = s.model(*dict.fromkeys([*outputs, y]))
    simple = simplify_checked(model)
    onnx.checker.check_model(simple, full_check=True)
    assert "BatchNormalization" not in kinds(simple)


def test_given_shapes_make_a_dynamic_model_static() -> None:
    """Flattening by arithmetic on the shape, as exporters write it, folds to a plain reshape."""
    s = Sketch("batch", 4, "height", 8)
    x = s.conv("x", 4, 6)
    batch = s.op("Gather", s.op("Shape", x), s.const(np.array([0])))
    flat = s.op("Reshape", x, s.op("Concat", batch, s.const(np.array([-1])), axis=0))
    model = s.model(s.op("MatMul", flat, s.normal(6 * 8 * 8, 5)))
    simple = simplify(model, {"x": (2, 4, 8, 8)})
    assert kinds(simple) == ["Conv", "MatMul", "Reshape"]
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 4, 8, 8), dtype=np.float32)}
    assert relative_error(run_on(simple, feeds), run_on(model, feeds)) <= 1e-6
    shapes = [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in simple.graph.output]
    assert shapes == [[2, 5]]


def many_parts(s: Sketch) -> Any:
    parts = s.op("Split", "x", s.const(np.ones(150, np.int64)), outputs=150, axis=0)
    return s.model(s.op("Concat", *parts[::-1], axis=0))


def many_steps(s: Sketch) -> Any:
    return s.model(s.op("RNN", "x", s.normal(1, 4, 5), s.normal(1, 4, 4), hidden_size=4))


@pytest.mark.parametrize("make", [many_parts, many_steps])
def test_long_lists_of_sizes_are_read(make: Any) -> None:
    shape = (150, 5) if make is many_parts else (150, 1, 5)
    model = make(Sketch(*shape))
    simplified = simplify_checked(model)
    require_supported("m", simplified)


def test_a_model_that_cannot_be_written_stays() -> None:
    model: Any = ir.serde.deserialize_model(many_parts(Sketch(150, 5)))
    before = list(model.graph.inputs), list(model.graph.initializers)
    model.graph.outputs[0].type = ir.TensorType(None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ir.serde.SerdeError):
        infer_shapes(model)
    assert (list(model.graph.inputs), list(model.graph.initializers)) == before


@examples(60)
@given(
    st.sampled_from(["reflect", "edge", "wrap"]),
    st.tuples(st.integers(3, 6), st.integers(3, 6)),
    st.tuples(*[st.integers(0, 4)] * 4),
)
def test_what_pads_copy_is_joined_where_other_shapes_follow(
    mode: str, size: tuple[int, int], widths: tuple[int, ...]
) -> None:
    # ONNX Runtime reflects less than an extent.
    widths = tuple(min(width, extent - 1) for width, extent in zip(widths, size * 2, strict=True))
    sketch = Sketch(1, 2, *size, opset=19)
    pads = np.array([0, 0, *widths[:2], 0, 0, *widths[2:]], np.int64)
    model = sketch.model(sketch.op("Relu", sketch.op("Pad", "x", sketch.const(pads), mode=mode)))
    simple = simplify(model, is_open=True)
    assert relative_error(run_on(simple, None), run_on(model, None)) == 0
    assert "Pad" not in kinds(simple)
    if max(widths) and max(widths) < min(size) - 1:
        places = [i for i in simple.graph.initializer if i.data_type == TensorProto.INT64]
        assert "Concat" in kinds(simple)
        assert all(max(i.dims, default=0) <= max(widths) for i in places)


def test_what_does_nothing_at_one_shape_alone_may_stay() -> None:
    sketch = Sketch(1, 4, 8, 8)
    y = sliced(sketch, "x", 0, 8, 2)
    y = sketch.op("Pad", y, sketch.const(np.zeros(8, np.int64)))
    y = sliced(sketch, sketch.op("Relu", y), 0, np.iinfo(np.int64).max, 3)
    size = sketch.const(np.array([1, 2, 8, 8], np.int64))
    table = sketch.op("Resize", sketch.normal(1, 2, 4, 4), "", "", size, mode="linear")
    model = sketch.model(sketch.op("Concat", y, table, axis=1))
    assert kinds(simplify(model, is_open=True)) == ["Concat", "Relu"]
    kept = simplify(model, is_open=True, keep_shaped=True)
    assert sorted(kinds(kept)) == ["Concat", "Pad", "Relu", "Resize", "Slice"]
    assert relative_error(run_on(kept, None), run_on(model, None)) == 0
