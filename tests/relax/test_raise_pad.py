"""Paddings that the importer wrote as TIR become operators again; masks do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax, te, tirx
from tvm.relax.frontend.onnx import from_onnx

from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relax.canonical.canonicalise import canonicalise
from relay_passes.relax.canonical.raise_pad import RaisePad
from tests.onnx_sketch import Sketch, relative_error
from tests.onnx_sketch import run as run_onnxruntime
from tests.relax.relax_sketch import RelaxSketch, inputs_of, module_of, operators, run
from tvm_ios.policies.sequential import sequential_schedule

SHAPE = (1, 3, 8, 8)


def _padded(pads: list[int], value: float | None = None, mode: str = "constant") -> Any:
    sketch = Sketch(*SHAPE)
    inputs = ["x", sketch.const(np.array(pads, np.int64))]
    inputs += [] if value is None else [sketch.const(np.float32(value))]
    return sketch.model(sketch.op("Pad", *inputs, mode=mode))


@pytest.mark.parametrize(
    ("pads", "value"),
    [
        ([0, 0, 1, 1, 0, 0, 1, 1], None),
        ([0, 0, 1, 2, 0, 0, 3, 0], None),
        ([0, 0, 0, 0, 0, 0, 1, 1], -1.5),
        ([0, 2, 0, 0, 1, 0, 0, 0], 3.0),
        ([1, 0, 0, 5, 0, 0, 0, 0], 0.0),
    ],
)
def test_raises_a_padding(pads: list[int], value: float | None) -> None:
    model = _padded(pads, value)
    module = from_onnx(model, keep_params_in_input=False)
    assert operators(module) == ["relax.call_tir"]
    raised = canonicalise(module)
    assert operators(raised) == ["relax.nn.pad"]
    assert [v.name_hint for v in raised.get_global_vars()] == ["main"]
    x = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    assert relative_error(run(raised, [x]), run_onnxruntime(model)) == 0


def _tir(compute: Any, shape: tuple[int, ...]) -> Any:
    def body(s: RelaxSketch, x: Any) -> Any:
        return s.builder.emit_te(lambda a: te.compute(shape, lambda i, j: compute(a, i, j)), x)

    return module_of([(4, 4)], body)


ZERO = tirx.const(0.0, "float32")
MASKS = {
    "triangle": ((4, 4), lambda a, i, j: tirx.if_then_else(i <= j, a[i, j], ZERO)),
    "corner": (
        (6, 6),
        lambda a, i, j: tirx.if_then_else(
            tirx.all(i >= 1, j >= 1, i < 5, j < 5, i + j < 7), a[i - 1, j - 1], ZERO
        ),
    ),
    "scaled": (
        (4, 6),
        lambda a, i, j: tirx.if_then_else(tirx.all(j >= 1, j < 5), a[i, j - 1] * 2.0, ZERO),
    ),
    "shifted": (
        (4, 6),
        lambda a, i, j: tirx.if_then_else(tirx.all(j >= 1, j < 5), a[i, j - 1], ZERO) + 1.0,
    ),
    "strided": ((2, 2), lambda a, i, j: tirx.if_then_else(i < 4, a[i * 2, j], ZERO)),
    "inverted": ((4, 4), lambda a, i, j: tirx.if_then_else(i < 2, ZERO, a[i, j])),
    "two": ((4, 4), lambda a, i, j: tirx.if_then_else(i < 2, a[i, j], a[j, i])),
}


@pytest.mark.parametrize("case", MASKS)
def test_does_not_take_a_mask_for_a_padding(case: str) -> None:
    shape, compute = MASKS[case]
    module = relax.transform.Normalize()(_tir(compute, shape))
    assert operators(RaisePad()(module)) == ["relax.call_tir"]
    inputs = [np.abs(x) + 1 for x in inputs_of(module)]
    prepared = prepare(module)
    scheduled = apply_schedule(prepared, sequential_schedule(prepared.units))
    assert relative_error(run(scheduled, inputs), run(module, inputs)) == 0


def test_raises_a_padding_written_by_hand() -> None:
    module = _tir(
        lambda a, i, j: tirx.if_then_else(tirx.all(j >= 1, j < 5), a[i, j - 1], ZERO), (4, 6)
    )
    assert operators(RaisePad()(relax.transform.Normalize()(module))) == ["relax.nn.pad"]


def test_a_reflection_stays_and_computes_the_same() -> None:
    model = _padded([0, 0, 1, 2, 0, 0, 3, 0], mode="reflect")
    prepared = prepare(from_onnx(model, keep_params_in_input=False))
    assert operators(prepared.module) == ["relax.call_tir"]
    scheduled = apply_schedule(prepared, sequential_schedule(prepared.units))
    x = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    assert relative_error(run(scheduled, [x]), run_onnxruntime(model)) == 0
