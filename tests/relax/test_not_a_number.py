"""NaN becomes in our kernels what TVM's own build of the module makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from relay_passes.pipeline import apply_schedule, prepare
from runtime_ext.build import build
from tests.onnx_sketch import Sketch
from tests.relax.relax_sketch import LANES, RelaxSketch, module_of, run
from tvm_ios.policies.sequential import sequential_schedule

op = relax.op
Array = np.ndarray[Any, Any]
NAN, INF = np.nan, np.inf
#: Whole vectors and a rest, in images whose channels are innermost between units.
SHAPE = (1, 19, 4, 4)


def numbers(seed: int) -> Array:
    """Normal numbers, with some that are none and infinities among them."""
    rng = np.random.default_rng(seed)
    array = rng.standard_normal(SHAPE).astype(np.float32)
    for special in (NAN, NAN, INF, -INF):
        array[rng.random(SHAPE) < 0.1] = special
    return array


def require_same(module: tvm.IRModule, inputs: list[Array]) -> None:
    prepared = prepare(module)
    scheduled = apply_schedule(prepared, sequential_schedule(prepared.units))
    session = build(scheduled, lanes=LANES).session()
    session.run(**dict(zip([port.name for port in session.inputs], inputs, strict=True)))
    outputs = [session.get_output(i) for i in range(len(session.outputs))]
    session.close()
    expected = run(module, inputs)
    assert any(np.isnan(array).any() for array in expected)
    assert any(np.isfinite(array).any() for array in expected)
    for place, (ours, theirs) in enumerate(zip(outputs, expected, strict=True)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, err_msg=f"output {place}")
    for ours, theirs in zip(run(scheduled, inputs), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def _element_wise(s: RelaxSketch, x: Any, y: Any) -> Any:
    six, zero = relax.const(6.0), relax.const(0.0)
    results = [
        op.nn.relu(x),
        op.clip(x, 0, 6),
        op.maximum(x, zero),
        op.maximum(zero, x),
        op.minimum(x, six),
        op.minimum(s.emit(op.maximum(y, zero)), six),
        op.maximum(x, y),
        op.minimum(y, x),
        op.nn.leakyrelu(x, 0.1),
        op.sigmoid(x),
        op.tanh(x),
        op.exp(x),
        op.erf(x),
        op.abs(x),
        op.nn.gelu(x),
        op.nn.silu(x),
        op.sqrt(x),
        op.sign(x),
        op.max(x, axis=[1]),
        op.min(x, axis=[2, 3]),
        op.mean(x, axis=[2, 3], keepdims=True),
        op.nn.softmax(x, axis=1),
        op.nn.softmax(y, axis=3),
    ]
    return tuple(s.emit(call) for call in results)


def test_operators() -> None:
    require_same(module_of([SHAPE, SHAPE], _element_wise), [numbers(0), numbers(1)])


def test_what_fuses_into_a_convolution() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        bounded = s.emit(op.clip(s.conv(x, 17), -0.5, 0.5))
        return bounded, s.emit(op.nn.relu(s.conv(x, 5, (1, 1)))), s.emit(op.exp(x))

    image = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    image[0, 3, 1, 2] = NAN
    require_same(module_of([SHAPE], body), [image])


@pytest.mark.parametrize("bounds", [(0.0, 6.0), (-0.5, None), (None, 0.5), (1.0, -1.0)])
def test_a_clip_of_onnx(bounds: tuple[float | None, float | None]) -> None:
    s = Sketch(*SHAPE)
    inputs = ["" if b is None else s.const(np.float32(b)) for b in bounds]
    model = s.model(s.op("Clip", "x", *inputs), s.op("Exp", "x"))
    require_same(from_onnx(model, keep_params_in_input=False), [numbers(2)])
