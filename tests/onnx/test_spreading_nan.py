"""NaN is drawn where it reaches what may drop it through convolutions, and decides nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.onnx_sketch import Sketch
from tvm_ios.contest.outputs import NAN, Sample, difference
from tvm_ios.contest.tolerance import Tolerance
from tvm_ios.onnx.simplify import simplify
from tvm_ios.onnx.spreading_nan import spreading_nan


@pytest.mark.parametrize(
    ("compute", "drawn"),
    [
        (lambda s: s.op("Relu", s.conv("x", 3, 4)), True),
        (lambda s: s.op("Relu", s.op("MatMul", "x", s.normal(8, 8))), True),
        (lambda s: s.op("MaxPool", s.conv("x", 3, 4), kernel_shape=[2, 2]), True),
        (lambda s: s.op("Softmax", s.op("Clip", s.conv("x", 3, 4), s.const(0.0))), True),
        (lambda s: s.conv(s.op("Relu", "x"), 3, 4), False),
        (lambda s: s.op("Sigmoid", s.conv("x", 3, 4)), False),
        (lambda s: s.op("Cast", s.op("Relu", s.conv("x", 3, 4)), to=TensorProto.INT32), False),
        (lambda s: s.op("ArgMax", s.op("Relu", s.conv("x", 3, 4)), axis=1), False),
        (lambda s: s.op("Where", s.op("IsNaN", s.conv("x", 3, 3)), s.const(0.0), "x"), False),
    ],
)
def test_nan_is_drawn_where_it_spreads_and_may_be_dropped(compute: Any, drawn: bool) -> None:
    sketch = Sketch(1, 3, 8, 8)
    x = np.zeros((1, 3, 8, 8), np.float32)
    found = spreading_nan(simplify(sketch.model(compute(sketch))), {"x": x})
    assert (found is not None) is drawn
    assert found is None or np.isnan(found["x"]).sum() == 2
    assert not np.isnan(x).any()


@pytest.mark.parametrize(
    ("ours", "right"),
    [
        ([np.nan, 1.0, 2.0], True),
        ([np.nan, np.nan, 7.0], True),
        ([0.0, 1.0, 2.0], False),
        ([np.inf, 1.0, 2.0], False),
        ([np.nan, 1.0], False),
    ],
)
def test_nan_has_to_be_where_the_reference_has_it(ours: list[float], right: bool) -> None:
    sample = Sample({}, [np.array([np.nan, 1.0, 2.0], np.float32)], NAN)
    compared = sample.compared([np.array(ours, np.float32)])
    assert (difference(compared, sample.outputs, Tolerance(1e-3)) == "") is right
