"""The largest of windows and rows, where these have NaN and infinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from relay_passes.relax.importer import import_onnx
from tests.onnx_sketch import Sketch
from tests.relax.relax_sketch import sequential_outputs
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.simplify import simplify


def chosen(array: Array, kind: str, *constants: Array, outputs: int = 1, **how: Any) -> Any:
    """The outputs of an operator of one tensor."""
    sketch = Sketch(opset=20)
    dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
    sketch.inputs = [helper.make_tensor_value_info("x", dtype, array.shape)]
    names = sketch.op(kind, "x", *map(sketch.const, constants), outputs=outputs, **how)
    model = sketch.model(*([names] if outputs == 1 else names))
    for output in model.graph.output:
        output.ClearField("type")
    return sequential_outputs(
        import_onnx(simplify(onnx.shape_inference.infer_shapes(model))), [array]
    )


def drawn(*shape: int, dtype: str = "float32") -> Array:
    """Small integers, many of them equal, NaN and infinities."""
    generator = np.random.default_rng(0)
    array = generator.integers(-3, 4, shape).astype(dtype)
    chance = generator.random(shape)
    for place, number in enumerate((np.nan, np.inf, -np.inf)):
        array[(chance * 8).astype(int) == place] = number
    array[..., :3] = -np.inf
    return array


WINDOWS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "1d": ((1, 2, 30), {"kernel_shape": [3]}),
    "1d, padded": ((1, 2, 30), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    "2d": ((1, 20, 7, 7), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "2d, padded": ((1, 3, 7, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
    "2d, dilated": ((1, 3, 9, 9), {"kernel_shape": [3, 3], "dilations": [2, 2]}),
    "2d, ceil": ((1, 3, 8, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "3d": ((1, 2, 5, 5, 5), {"kernel_shape": [2, 2, 2]}),
}


def windows(array: Array, how: dict[str, Any]) -> tuple[Array, Array]:
    """The windows of each place, and the numbers of their pixels in the whole tensor."""
    kernel, rank = how["kernel_shape"], len(how["kernel_shape"])
    strides, dilations = how.get("strides", [1] * rank), how.get("dilations", [1] * rank)
    pads = how.get("pads", [0] * 2 * rank)
    ends = [pads[rank + i] + how.get("ceil_mode", 0) * (strides[i] - 1) for i in range(rank)]
    around = [(0, 0), (0, 0), *((pads[i], ends[i]) for i in range(rank))]
    reach = [dilations[i] * (kernel[i] - 1) + 1 for i in range(rank)]
    numbers = np.arange(array.size).reshape(array.shape)
    step = tuple(slice(None, None, s) for s in strides)
    within = tuple(slice(None, None, d) for d in dilations)
    found = []
    for values, outside in ((array, -np.inf), (numbers, array.size)):
        padded = np.pad(values, around, constant_values=outside)
        views: Any = np.lib.stride_tricks.sliding_window_view(
            padded, reach, axis=tuple(range(2, 2 + rank))
        )[(slice(None), slice(None), *step, *within)]
        found.append(views.reshape(*views.shape[: 2 + rank], -1))
    return found[0], found[1]


@pytest.mark.parametrize("case", WINDOWS)
def test_the_largest_of_a_window_with_nan_is_nan(case: str) -> None:
    shape, how = WINDOWS[case]
    array = drawn(*shape)
    parts, _ = windows(array, how)
    np.testing.assert_array_equal(chosen(array, "MaxPool", **how)[0], parts.max(-1))


def test_indices_of_poolings_are_those_of_the_first_nan() -> None:
    shape, how = WINDOWS["2d, padded"]
    array = drawn(*shape)
    parts, numbers = windows(array, how)
    most = parts.max(-1, keepdims=True)
    largest = (parts == most) | np.isnan(parts)
    first = np.where(largest, numbers, array.size).min(-1)
    values, indices = chosen(array, "MaxPool", outputs=2, **how)
    np.testing.assert_array_equal(values, most[..., 0])
    np.testing.assert_array_equal(indices, first)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nan_is_the_largest_of_rows(dtype: str, largest: int) -> None:
    array = drawn(3, 9, 2, dtype=dtype)
    keys = np.where(np.isnan(array), 5, np.clip(array.astype(float), -4, 4))
    order = np.argsort(-keys if largest else keys, axis=1, kind="stable")[:, :6]
    values, indices = chosen(array, "TopK", np.array([6]), outputs=2, axis=1, largest=largest)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(array, order, 1))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_large_integers_of_rows_are_told_apart(dtype: str) -> None:
    first = np.iinfo(dtype).max - 20
    array = np.random.default_rng(0).permutation(20).astype(dtype) + first
    array[3] = np.iinfo(dtype).min
    values, indices = chosen(array, "TopK", np.array([20]), outputs=2)
    np.testing.assert_array_equal(values, np.sort(array)[::-1])
    np.testing.assert_array_equal(array[indices], values)
