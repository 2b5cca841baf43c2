"""Every way to say a resize becomes one, or is refused; none is read as something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from tests.fast_run import examples
from tests.onnx_sketch import Sketch, kinds, run_on, simplify_checked
from tests.refusals import refused
from tvm_ios.files.array_files import Array
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.onnx.simplify import simplify


def resized(kind: str, opset: int, factor: float, **attributes: Any) -> Any:
    sketch = Sketch(1, 4, 8, 6, opset=opset)
    factors = [1.0, 1.0, factor, factor]
    inputs = [sketch.conv("x", 4, 5)]
    if opset < 9:
        attributes["scales"] = factors
    elif opset < 11:
        inputs.append(sketch.const(factors))
    else:
        inputs += ["", sketch.const(factors)]
    return sketch.model(sketch.op(kind, *inputs, **attributes))


@pytest.mark.parametrize(
    ("kind", "opset", "mode"),
    [
        ("Upsample", 7, "nearest"),
        ("Upsample", 9, "nearest"),
        ("Upsample", 9, "linear"),
        ("Resize", 10, "linear"),
        ("Resize", 13, "linear"),
        ("Resize", 18, "cubic"),
    ],
)
@pytest.mark.parametrize("factor", [2.0, 1.5, 3.0])
def test_old_and_new_forms(kind: str, opset: int, mode: str, factor: float) -> None:
    model = resized(kind, opset, factor, mode=mode)
    simple = simplify_checked(model)
    (resize,) = (o for o in graph_from_onnx(model).operators if o.kind == "resize2d")
    assert resize.attrs["size"] == (8 * factor, 6 * factor)
    assert resize.attrs["coordinates"] == ("asymmetric" if opset < 11 else "half_pixel")
    assert kinds(simple) == ["Conv", "Resize"]


@pytest.mark.parametrize("factors", [(0.6, 0.6), (0.6, 1.5), (2.0, 0.3)], ids=str)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_the_oldest_resize_of_a_shorter_axis(mode: str, factors: tuple[float, float]) -> None:
    """The nearest pixel is the next one where an axis becomes shorter."""
    sketch = Sketch(1, 2, 5, 7, opset=10)
    scales = sketch.const([1.0, 1.0, *factors])
    model = sketch.model(sketch.op("Resize", "x", scales, mode=mode))
    simplify_checked(model)


def test_sizes_beside_empty_scales() -> None:
    sketch = Sketch(1, 4, 8, 6, opset=11)
    empty = sketch.const(np.zeros(0))
    sizes = sketch.const(np.array([1, 4, 16, 9]))
    output = sketch.op("Resize", "x", empty, empty, sizes, mode="linear")
    simple = simplify(sketch.model(output))
    # Readers take an empty tensor of scales for scales.
    assert list(simple.graph.node[0].input[1:3]) == ["", ""]
    assert graph_from_onnx(simple).operators[0].attrs["size"] == (16, 9)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("height", [1, 3])
def test_corners_that_are_one_pixel(mode: str, height: int) -> None:
    sketch = Sketch(1, 2, height, 3, opset=18)
    sizes = sketch.const(np.array([1, 2, 1, 6]))
    places = {"coordinate_transformation_mode": "align_corners"}
    model = sketch.model(sketch.op("Resize", "x", "", "", sizes, mode=mode, **places))
    simple = simplify_checked(model, within=1e-6)
    assert "Resize" not in kinds(simple)


def test_some_axes_are_all_axes() -> None:
    sketch = Sketch(1, 4, 8, 6, opset=18)
    sizes = sketch.const(np.array([12, 16]))
    resized = sketch.op("Resize", "x", "", "", sizes, axes=[3, 2], mode="linear")
    model = sketch.model(resized)
    simplify_checked(model, within=1e-6)
    assert graph_from_onnx(model).operators[0].attrs["size"] == (16, 12)


def test_scales_that_are_computed_are_refused() -> None:
    sketch = Sketch(1, 4, 8, 6, opset=18)
    scales = sketch.op("ReduceMax", "x", sketch.const(np.array([0, 2, 3])), keepdims=0)
    model = sketch.model(sketch.op("Resize", "x", "", scales))
    model.graph.output[0].type.CopyFrom(onnx.helper.make_tensor_type_proto(1, [1, 4, 16, 12]))
    with refused(GraphError, "(Resize)", "scales"):
        simplify(model)


def test_corners_of_a_size_that_is_rounded_are_refused() -> None:
    """ONNX's text names the rounded size, and its tests the one before."""
    model = resized(
        "Resize", 18, 1.7, mode="linear", coordinate_transformation_mode="align_corners"
    )
    with refused(GraphError, "(Resize)", "align_corners"):
        simplify(model)


COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "asymmetric",
    "align_corners",
    "tf_crop_and_resize",
)


@pytest.mark.parametrize("coordinates", ["half_pixel", "half_pixel_symmetric", "asymmetric"])
@pytest.mark.parametrize("factor", [0.6, 0.7, 1.3, 1 / 3])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_scales_that_are_rounded(mode: str, factor: float, coordinates: str) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    model = resized("Resize", 19, factor, **attributes)
    simple = simplify_checked(model)
    assert "Resize" not in kinds(simple)


def test_far_outside_a_crop_stands_a_value_of_its_own() -> None:
    """No pixel is near a place a whole pixel outside, of which those outside do not count."""
    sketch = Sketch(5, opset=19)
    bounds, size = sketch.const([-0.25, 0.75]), sketch.const(np.array([2]))
    attributes = {
        "mode": "cubic",
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "exclude_outside": 1,
        "extrapolation_value": 10.0,
    }
    model = sketch.model(sketch.op("Resize", "x", bounds, "", size, **attributes))
    (output,) = run_on(simplify(model), {"x": np.arange(5, dtype=np.float32)})
    assert output.tolist() == [10, 3]


@st.composite
def resizes(draw: st.DrawFn) -> tuple[Any, Array]:
    """A model that resizes two or three axes in one of all ways that ONNX has, and its input."""
    shape = [draw(st.integers(1, 7)) for _ in range(draw(st.integers(2, 3)))]
    axes = draw(st.permutations(range(len(shape))))[: draw(st.integers(1, len(shape)))]
    mode = draw(st.sampled_from(["nearest", "linear", "cubic"]))
    coordinates = draw(st.sampled_from(COORDINATES))
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        roundings = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
        attributes["nearest_mode"] = draw(st.sampled_from(roundings))
    else:
        attributes["antialias"] = int(draw(st.booleans()))
    if mode == "cubic":
        attributes["cubic_coeff_a"] = draw(st.sampled_from([-0.75, -0.5]))
        attributes["exclude_outside"] = int(draw(st.booleans()))
    sketch = Sketch(*shape, opset=19)
    roi = ""
    if coordinates == "tf_crop_and_resize":
        attributes["extrapolation_value"] = 10.0
        begins = [draw(st.sampled_from([-0.25, 0.0, 0.5])) for _ in axes]
        ends = [draw(st.sampled_from([0.75, 1.0, 1.25])) for _ in axes]
        roi = sketch.const([*begins, *ends])
    # The reference rounds where it centres what was rounded, and takes other pixels then.
    if draw(st.booleans()) and coordinates in ("half_pixel", "pytorch_half_pixel", "asymmetric"):
        # Of these, and of what they divide, floating-point numbers are exact.
        scales = [draw(st.sampled_from([0.375, 0.5, 0.75, 1.0, 1.25, 2.0])) for _ in axes]
        scales = [max(scale, 1 / shape[axis]) for scale, axis in zip(scales, axes, strict=True)]
        inputs = [sketch.const(scales)]
    else:
        policies = ["stretch", "not_larger", "not_smaller"]
        if len(axes) > 1 and coordinates not in ("tf_crop_and_resize", "half_pixel_symmetric"):
            attributes["keep_aspect_ratio_policy"] = draw(st.sampled_from(policies))
        # Of whole factors and halves, too: the reference rounds others.
        extents = [shape[axis] for axis in axes]
        sizes = [draw(st.sampled_from([n, 2 * n, 3 * n, n if n % 2 else n // 2])) for n in extents]
        inputs = ["", sketch.const(np.array(sizes))]
    model = sketch.model(sketch.op("Resize", "x", roi, *inputs, axes=list(axes), **attributes))
    return model, np.random.default_rng(0).standard_normal(shape, np.float32)


@given(resizes())
@examples(200)
def test_every_way_to_resize(case: tuple[Any, Array]) -> None:
    model, x = case
    note(onnx.printer.to_text(model))
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    assume(expected.size > 0)
    # ONNX's text reads the first pixel where one is made, its reference what lies before that.
    assume(1 not in expected.shape or "pytorch_half_pixel" not in onnx.printer.to_text(model))
    try:
        simple = simplify(model)
    except GraphError as error:
        assert "align_corners" in str(error)  # noqa: PT017  the policy's rounded sizes
        return
    # What stays a Resize is one that others read, which other tests run.
    (output,) = ReferenceEvaluator(simple).run(None, {"x": x})
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("mode", ["half_pixel", "pytorch_half_pixel", "align_corners"])
def test_pixels_just_between_two_are_chosen_exactly(mode: str, rounding: str) -> None:
    """Of 2 pixels 7 are made, so that the fourth lies between both: floats decide by chance."""
    sketch = Sketch(1, 2, 2, 5)
    attributes = {"coordinate_transformation_mode": mode, "nearest_mode": rounding}
    sizes = sketch.const(np.array([1, 2, 7, 15]))
    made = sketch.op("Resize", "x", "", "", sizes, mode="nearest", **attributes)
    model = sketch.model(made)
    x = np.arange(20, dtype=np.float32).reshape(1, 2, 2, 5)
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_array_equal(run_on(simplify(model), {"x": x})[0], expected[0])
