"""What TVM's importer for Relay misreads is written in other operators, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from tvm import relay

from relay_passes.dialect import DialectError
from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relay import importer
from relay_passes.relay.canonical.canonicalise import canonicalise
from relay_passes.relay.importer import import_onnx
from runtime_ext.build import build
from runtime_ext.relay.factory import RelayBuildError
from tests.onnx_sketch import Sketch
from tests.refusals import refused
from tests.relay.relay_sketch import module_of, run
from tvm_ios.onnx.simplify import simplify
from tvm_ios.policies.sequential import sequential_schedule

EXTENTS = (1, 2, 6, 6)
X = np.random.default_rng(0).standard_normal(EXTENTS).astype("float32")


def _outputs(kind: str, *, opset: int = 22, **attributes: Any) -> tuple[Any, Any]:
    """What comes of an operator through Relay, and its model."""
    sketch = Sketch(*EXTENTS, opset=opset)
    model = sketch.model(sketch.op(kind, "x", **attributes))
    return run(import_onnx(simplify(model)), {"x": X})[0], model


def _norms(p: int, strides: int, pad: int, count: int) -> Any:
    """The norms of windows of three, by their definition."""
    padded = np.abs(np.pad(X, ((0, 0), (0, 0), (pad, 9), (pad, 9)))) ** p
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return windows[:, :, ::strides, ::strides].sum((4, 5))[:, :, :count, :count] ** (1 / p)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize(
    ("strides", "pad", "ceil_mode", "count"), [(1, 0, 0, 4), (2, 1, 0, 3), (2, 1, 1, 4)]
)
def test_norms_of_windows(p: int, strides: int, pad: int, ceil_mode: int, count: int) -> None:
    attributes: dict[str, Any] = {"strides": [strides] * 2, "pads": [pad] * 4, "p": p}
    result, _ = _outputs("LpPool", kernel_shape=[3, 3], ceil_mode=ceil_mode, **attributes)
    np.testing.assert_allclose(result, _norms(p, strides, pad, count), rtol=1e-5)


#: Of the first axis ONNX leaves out what TVM rounds up to; the second has a part of a window.
_WINDOWS = {"kernel_shape": [3, 3], "strides": [4, 4], "pads": [0, 0, 2, 0], "ceil_mode": 1}


@pytest.mark.parametrize("opset", [18, 22])
@pytest.mark.parametrize(
    ("kind", "attributes"),
    [("MaxPool", {}), ("AveragePool", {}), ("AveragePool", {"count_include_pad": 1})],
)
def test_no_window_begins_after_the_image(
    kind: str, attributes: dict[str, int], opset: int
) -> None:
    result, model = _outputs(kind, opset=opset, **attributes, **_WINDOWS)
    np.testing.assert_allclose(result, ReferenceEvaluator(model).run(None, {"x": X})[0], rtol=1e-5)


@pytest.mark.parametrize("kind", ["Gather", "GatherElements"])
def test_indices_and_axes_that_count_from_the_end(kind: str) -> None:
    sketch = Sketch(*EXTENTS)
    model = sketch.model(sketch.op(kind, "x", sketch.const(np.full((1, 2, 3, 6), -1)), axis=-2))
    result = run(import_onnx(simplify(model)), {"x": X})[0]
    np.testing.assert_array_equal(result, ReferenceEvaluator(model).run(None, {"x": X})[0])


def test_means_of_several_shapes() -> None:
    sketch = Sketch(*EXTENTS)
    others = [sketch.const(np.full(shape, 2.0)) for shape in ((6, 1), (1,))]
    result = run(import_onnx(simplify(sketch.model(sketch.op("Mean", "x", *others)))), {"x": X})[0]
    np.testing.assert_allclose(result, (X + 4) / 3, rtol=1e-6)


def test_of_bounds_that_cross_the_upper_one_is_taken() -> None:
    sketch = Sketch(*EXTENTS)
    bounds = [sketch.const(np.float32(bound)) for bound in (2.0, 1.0)]
    module = import_onnx(simplify(sketch.model(sketch.op("Clip", "x", *bounds))))
    assert np.all(run(module, {"x": X})[0] == 1.0)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_both_curves_of_gelu(approximate: str) -> None:
    result, model = _outputs("Gelu", approximate=approximate)
    np.testing.assert_allclose(result, ReferenceEvaluator(model).run(None, {"x": X})[0], atol=1e-6)


def test_doubles_become_half_precision() -> None:
    def body(s: Any, x: Any) -> Any:
        return relay.cast(relay.cast(x, "float64"), "float16")

    prepared = prepare(module_of([EXTENTS], body))
    module = apply_schedule(prepared, sequential_schedule(prepared.units))
    session = build(module, lanes=1).session()
    session.run(x0=X)
    np.testing.assert_array_equal(session.get_output(0), X.astype("float16"))


def test_other_pixels_of_regions_are_refused() -> None:
    sketch = Sketch(*EXTENTS, opset=16)
    regions = sketch.const(np.array([[0, 0, 3, 3]], "float32"))
    batch = sketch.const(np.zeros(1, "int64"))
    model = sketch.model(sketch.op("RoiAlign", "x", regions, batch, sampling_ratio=2))
    with refused(DialectError, "half_pixel", "RoiAlign_0"):
        import_onnx(simplify(model))


@pytest.mark.parametrize("dtype", ["UINT4", "FLOAT8E4M3FN", "BFLOAT16"])
def test_types_that_it_takes_for_others_are_refused(dtype: str) -> None:
    sketch = Sketch(*EXTENTS, opset=21)
    model = sketch.model(sketch.op("Cast", "x", to=TensorProto.DataType.Value(dtype)))
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.DataType.Value(dtype)
    with refused(DialectError, dtype):
        import_onnx(simplify(model))


@pytest.mark.parametrize("shape", [(1, 2, 6, 5), (2, 6, 6)])
def test_another_shape_than_onnx_has_is_refused(shape: tuple[int, ...]) -> None:
    sketch = Sketch(*EXTENTS)
    model = simplify(sketch.model(sketch.op("Relu", "x")))
    name = model.graph.output[0].name
    declared = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    model.graph.output[0].CopyFrom(declared)
    with refused(DialectError, name, list(EXTENTS), list(shape)):
        import_onnx(model)


def test_whatever_canonical_passes_raise_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(module: Any) -> Any:
        raise RuntimeError("a trace of calls\nInternalError: Check failed: (is_known) is false")

    monkeypatch.setattr(importer, "canonicalise", fails)
    sketch = Sketch(*EXTENTS)
    with refused(DialectError, "sketch", "is_known"):
        import_onnx(simplify(sketch.model(sketch.op("Relu", "x"))))


def test_whatever_the_build_raises_is_a_sentence() -> None:
    def body(s: Any, x: Any) -> Any:
        weight = relay.const(np.ones((2, 2, 3, 3), "float32"))
        return relay.nn.conv2d_transpose(x, weight, dilation=(2, 2), channels=2, kernel_size=(3, 3))

    prepared = prepare(module_of([EXTENTS], body))
    module = apply_schedule(prepared, sequential_schedule(prepared.units))
    with refused(RelayBuildError, "dilate"):
        build(module, lanes=1)


def test_attributes_that_cannot_be_read_are_refused() -> None:
    def body(s: Any, x: Any) -> Any:
        real, imaginary = relay.op.transform.dft(x, x)
        return relay.Tuple([real, imaginary])

    module = canonicalise(module_of([EXTENTS], body))
    with refused(DialectError, "dft"):
        prepare(module)
