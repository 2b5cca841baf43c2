"""Inputs at the edges of operators: drawn where they are defined, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.onnx_sketch import Sketch
from tvm_ios.contest.outputs import NAN, Sample, difference
from tvm_ios.contest.tolerance import Tolerance
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edge_inputs import edge_inputs
from tvm_ios.onnx.simplify import simplify
from tvm_ios.onnx.spreading_nan import spreading_nan

RNG = np.random.default_rng(0)


def drawn(sketch: Sketch, *outputs: str, shape: tuple[int, ...], **options: bool) -> Array | None:
    """The edge of the only input."""
    inputs = {"x": RNG.standard_normal(shape).astype(np.float32)}
    edges = edge_inputs(
        simplify(sketch.model(*outputs)), inputs, infinities=options.get("infinities", True)
    )
    return None if edges is None else edges["x"]


def sketch_of(*shape: int, kind: int = TensorProto.FLOAT) -> Sketch:
    sketch = Sketch(*shape)
    sketch.inputs = [helper.make_tensor_value_info("x", kind, shape)]
    return sketch


def test_reductions_meet_rows_of_infinities_and_ties() -> None:
    sketch = sketch_of(8, 5)
    moved = sketch.op("Relu", sketch.op("Transpose", "x", perm=[1, 0]))
    x = drawn(sketch, sketch.op("ReduceMax", moved, axes=[0]), shape=(8, 5))
    assert x is not None
    assert (x == -np.inf).all(axis=1).any()
    assert (x == np.inf)[:, :-1].all(axis=1).any()
    assert (x[:, -1] == -np.inf).all()
    finite = x[np.isfinite(x)]
    assert len({*finite.tolist()}) < finite.size
    assert {*(2 * finite).tolist()} <= {*range(-4, 5)}
    few = drawn(sketch, sketch.op("ReduceMax", moved, axes=[0]), shape=(8, 5), infinities=False)
    assert few is not None
    assert np.isfinite(few).all()


@pytest.mark.parametrize(
    "compute",
    [
        lambda sketch: sketch.op("Transpose", "x", perm=[1, 0]),
        lambda sketch: sketch.op("ArgMax", sketch.op("Exp", "x"), axis=1),
        lambda sketch: sketch.op("Relu", sketch.op("MatMul", "x", sketch.normal(4, 4))),
        lambda sketch: sketch.op("TopK", "x", sketch.const(np.array([2])), outputs=2, sorted=0)[0],
    ],
    ids=["moved", "computed", "multiplied", "unsorted"],
)
def test_nothing_is_drawn_past_arithmetic_or_without_an_edge(compute: Any) -> None:
    sketch = sketch_of(4, 4)
    assert drawn(sketch, compute(sketch), shape=(4, 4)) is None


@pytest.mark.parametrize(
    ("compute", "lowest", "largest"),
    [
        (lambda s: s.op("MaxPool", "x", kernel_shape=[2, 2]), False, True),
        (lambda s: s.op("Clip", "x", s.const(0.0)), True, False),
        (lambda s: s.op("Clip", "x", "", s.const(0.0)), False, True),
        (lambda s: s.op("Clip", "x", s.const(0.0), s.const(1.0)), True, True),
    ],
)
def test_infinities_that_onnx_runtime_makes_finite_are_not_drawn(
    compute: Any, lowest: bool, largest: bool
) -> None:
    sketch = sketch_of(2, 3, 8, 8)
    x = drawn(sketch, compute(sketch), shape=(2, 3, 8, 8))
    assert x is not None
    assert bool((x == -np.inf).any()) is lowest
    assert bool((x == np.inf).any()) is largest


def test_casts_to_integers_meet_no_infinities() -> None:
    sketch = sketch_of(4, 4)
    x = drawn(sketch, sketch.op("Cast", "x", to=TensorProto.UINT8), shape=(4, 4))
    assert x is not None
    assert {*x.flatten().tolist()} <= {0.0, 0.5, 1.0, 1.5, 2.0}


def test_masks_leave_something_in_each_row_but_the_first() -> None:
    sketch = sketch_of(8, 8)
    scores = sketch.op("Add", sketch.normal(2, 8, 8), "x")
    x = drawn(sketch, sketch.op("Softmax", scores), shape=(8, 8))
    assert x is not None
    assert not (x == np.inf).any()
    masked = x == -np.inf
    assert masked[0].all()
    assert not masked[1:].all(axis=1).any()
    assert masked[1:].any()


def test_no_row_is_masked_where_nan_is_open() -> None:
    sketch = sketch_of(8, 8)
    weights = sketch.op("Softmax", "x")
    x = drawn(sketch, sketch.op("ReduceMax", weights, axes=[1]), shape=(8, 8))
    assert x is not None
    assert not (x == -np.inf).all(axis=1).any()


def indices_of(*shape: int, data: tuple[int, ...], offset: bool = False) -> onnx.ModelProto:
    sketch = sketch_of(*shape, kind=TensorProto.INT64)
    flat = sketch.op("Reshape", "x", sketch.const(np.array([-1])))
    flat = sketch.op("Add", flat, sketch.const(np.array([1]))) if offset else flat
    return simplify(sketch.model(sketch.op("Gather", sketch.normal(*data), flat, axis=1)))


def test_indices_meet_both_ends() -> None:
    zeros = {"x": np.zeros((3, 4), np.int64)}
    edges = edge_inputs(indices_of(3, 4, data=(7, 9)), zeros, infinities=True)
    assert edges is not None
    assert edges["x"].flatten()[:4].tolist() == [8, -9, 0, -1]
    assert (edges["x"].min(), edges["x"].max()) == (-9, 8)
    computed = indices_of(3, 4, data=(7, 9), offset=True)
    assert edge_inputs(computed, zeros, infinities=True) is None


def test_boolean_masks_hide_all_and_nothing() -> None:
    sketch = sketch_of(4, 6, kind=TensorProto.BOOL)
    model = simplify(sketch.model(sketch.op("Where", "x", sketch.normal(6), sketch.normal(6))))
    edges = edge_inputs(model, {"x": RNG.integers(0, 2, (4, 6)).astype(bool)}, infinities=True)
    assert edges is not None
    assert not edges["x"][0].any()
    assert edges["x"][-1].all()


def test_a_scalar_stays_an_array() -> None:
    sketch = sketch_of()
    inputs = {"x": np.array(1.0, np.float32)}
    model = simplify(sketch.model(sketch.op("Relu", "x")))
    edges = edge_inputs(model, inputs, infinities=True)
    assert edges is not None
    assert isinstance(edges["x"], np.ndarray)
    assert edges["x"].shape == ()
    assert edges["x"].dtype == np.float32


@pytest.mark.parametrize(
    ("compute", "specials"),
    [
        (lambda s: s.op("Relu", "x"), 3),
        (lambda s: s.op("Sub", s.op("Exp", "x"), s.op("Exp", "x")), 3),
        (lambda s: s.op("Equal", "x", "x"), 3),
        (lambda s: s.op("Relu", s.op("Add", "x", s.normal(4))), 3),
        (lambda s: s.op("Max", s.op("Mul", "x", s.normal(4)), s.const(0.0)), 3),
        (lambda s: s.op("Clip", "x", s.const(0.0)), 1),
        (lambda s: s.op("Relu", s.op("Softmax", "x")), 0),
        (lambda s: s.op("MatMul", s.op("Relu", "x"), s.normal(4, 4)), 0),
        (lambda s: s.op("Cast", s.op("Relu", "x"), to=TensorProto.INT32), 0),
        (lambda s: s.op("Mul", "x", s.op("Exp", s.normal(4))), 0),
    ],
)
def test_nan_is_drawn_where_an_operator_looks_at_it(compute: Any, specials: int) -> None:
    sketch = sketch_of(16, 4)
    x = drawn(sketch, compute(sketch), shape=(16, 4))
    found = () if x is None else (np.isnan(x).any(), (x == np.inf).any(), (x == -np.inf).any())
    assert any(found[:1]) is (specials > 0)
    assert all(found) or specials < 3
    sketch = sketch_of(16, 4)
    finite = drawn(sketch, compute(sketch), shape=(16, 4), infinities=False)
    assert finite is None or np.isfinite(finite).all() or not specials


def test_nan_that_is_scrubbed_may_be_drawn_before_anything() -> None:
    sketch = sketch_of(16, 4)
    scrubbed = sketch.op("Where", sketch.op("IsNaN", "x"), sketch.const(0.0), "x")
    x = drawn(sketch, sketch.op("MatMul", scrubbed, sketch.normal(4, 4)), shape=(16, 4))
    assert x is not None
    assert np.isnan(x).any()


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
