"""Regions of images, whose data may say how many pixels are read, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from relay_passes.relax.importer import import_onnx
from tests.fast_run import crossed
from tests.onnx_sketch import Sketch, run_on
from tests.relax.relax_sketch import sequential_outputs
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.simplify import simplify

IMAGE = (2, 3, 10, 12)
#: Within the image, across its edges, larger than it, outside of it, thin, and without an extent.
REGIONS = [
    *([0.0, 0.0, 20.0, 18.0], [5.0, 6.0, 9.0, 30.0], [-4.0, -3.0, 3.0, 4.0], [2.0, 2.0, 3.0, 3.0]),
    *([-90.0, -70.0, 120.0, 130.0], [50.0, 60.0, 70.0, 80.0], [-9.0, 2.0, -5.0, 6.0]),
    *([1.0, 1.0, 18.0, 1.25], [4.0, 4.0, 4.0, 4.0], [8.0, 9.0, 3.0, 2.0], [0.0, 3.0, 24.0, 11.0]),
]


def aligned(opset: int = 16, regions: Any = REGIONS, **attributes: Any) -> Any:
    s = Sketch(*IMAGE, opset=opset)
    count = len(regions)
    s.inputs.append(helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [count, 4]))
    s.inputs.append(helper.make_tensor_value_info("which", TensorProto.INT64, [count]))
    size = {"output_height": 3, "output_width": 2}
    return s.model(s.op("RoiAlign", "x", "boxes", "which", **size, **attributes))


def inputs_of(regions: Any = REGIONS) -> dict[str, Array]:
    x = np.random.default_rng(0).standard_normal(IMAGE, dtype=np.float32)
    return {"x": x, "boxes": np.array(regions, np.float32), "which": np.arange(len(regions)) % 2}


def built(model: Any, feeds: dict[str, Array]) -> Array:
    """The model's output, each kernel's tiles divided among two lanes."""
    return sequential_outputs(import_onnx(simplify(model)), [*feeds.values()], lanes=2)[0]


@pytest.mark.parametrize(
    ("reading", "transformation"),
    crossed(
        [("avg", 0), ("max", 0), ("max", 2), ("avg", 2)],
        [
            {"coordinate_transformation_mode": "half_pixel", "spatial_scale": 0.5},
            {"opset": 10},
            {"coordinate_transformation_mode": "output_half_pixel"},
        ],
    ),
)
def test_regions(reading: tuple[str, int], transformation: dict[str, Any]) -> None:
    mode, ratio = reading
    model = aligned(mode=mode, sampling_ratio=ratio, **transformation)
    feeds = inputs_of()
    (expected,) = run_on(model, feeds)
    np.testing.assert_allclose(built(model, feeds), expected, rtol=1e-5, atol=1e-6)
    # The last one reads pixels, that outside of the image none.
    assert np.any(expected[-1])
    assert not np.any(expected[5])


def test_no_region_reads_beyond_the_image() -> None:
    """Nor takes for ever: ONNX Runtime would allocate a place for each of these samples."""
    far, nan = 1e30, np.nan
    regions = [
        [0, 0, far, far],
        [-far, -far, far, far],
        [0, 0, nan, 4],
        [0, -np.inf, 4, 4],
        [0] * 4,
    ]
    model = aligned(regions=regions, sampling_ratio=0)
    feeds = inputs_of(regions)
    output = built(model, {**feeds, "which": np.array([0, 1, 0, 1, -1])})
    assert np.isfinite(output[[0, 1]]).all()
    assert np.isnan(output[[2, 3]]).all()
    # A negative index counts from the end, as elsewhere.
    np.testing.assert_array_equal(output[4], built(model, {**feeds, "which": np.ones(5, int)})[4])


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_regions_of_other_types(kind: int) -> None:
    model, feeds = aligned(sampling_ratio=0), inputs_of()
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    expected = built(model, feeds)
    for value in (*model.graph.input[:2], *model.graph.output):
        value.type.tensor_type.elem_type = kind
    narrow = {name: v.astype(dtype) if v.dtype.kind == "f" else v for name, v in feeds.items()}
    output = built(model, narrow)
    assert output.dtype == dtype
    np.testing.assert_allclose(output, expected, rtol=2e-3, atol=2e-3)
