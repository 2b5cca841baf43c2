"""Every way to say a resize becomes one, or is refused; none is read as something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from tests.onnx_sketch import Sketch, kinds, relative_error, run, run_on
from tests.refusals import refused
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
    simple = simplify(model)
    assert relative_error(run(simple), run(model)) < 1e-5
    (resize,) = (o for o in graph_from_onnx(model).operators if o.kind == "resize2d")
    assert resize.attrs["size"] == (8 * factor, 6 * factor)
    assert resize.attrs["coordinates"] == ("asymmetric" if opset < 11 else "half_pixel")
    assert kinds(simple) == ["Conv", "Resize"]


def test_sizes_beside_empty_scales() -> None:
    sketch = Sketch(1, 4, 8, 6, opset=11)
    empty = sketch.const(np.zeros(0))
    sizes = sketch.const(np.array([1, 4, 16, 9]))
    output = sketch.op("Resize", "x", empty, empty, sizes, mode="linear")
    simple = simplify(sketch.model(output))
    # Readers take an empty tensor of scales for scales.
    assert list(simple.graph.node[0].input[1:3]) == ["", ""]
    assert graph_from_onnx(simple).operators[0].attrs["size"] == (16, 9)


def test_some_axes_are_all_axes() -> None:
    sketch = Sketch(1, 4, 8, 6, opset=18)
    sizes = sketch.const(np.array([12, 16]))
    resized = sketch.op("Resize", "x", "", "", sizes, axes=[3, 2], mode="linear")
    model = sketch.model(resized)
    assert relative_error(run(simplify(model)), run(model)) < 1e-6
    assert graph_from_onnx(model).operators[0].attrs["size"] == (16, 12)


@pytest.mark.parametrize(
    ("factor", "attributes", "named"),
    [
        (1.7, {}, ("8 pixels", 1.7)),
        (0.5, {"antialias": 1, "mode": "linear"}, ("antialias",)),
    ],
)
def test_what_a_size_does_not_say_is_refused(
    factor: float, attributes: dict[str, Any], named: tuple[object, ...]
) -> None:
    with refused(GraphError, "(Resize)", *named):
        simplify(resized("Resize", 18, factor, **attributes))


def test_channels_are_not_resized() -> None:
    sketch = Sketch(1, 4, 8, 6)
    model = sketch.model(sketch.op("Resize", "x", "", sketch.const([1.0, 2.0, 1.0, 1.0])))
    with refused(GraphError, "(Resize)", "batch"):
        simplify(model)


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
