"""Which inputs the programs of a model are compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from runtime_ext.verification.expected import Outputs
from runtime_ext.verification.reference import (
    LARGE_CHANNELS,
    ComparedModel,
    Inputs,
    reference_of,
    with_large_channels,
    with_tvm_outputs,
)
from tests.onnx_sketch import Sketch
from tvm_ios.contest.outputs import NAN, Verify
from tvm_ios.onnx.simplify import simplify

pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("quantised", [False, True])
def test_models_that_round_have_large_channels_too(quantised: bool) -> None:
    sketch = Sketch(2, 32)
    model = ComparedModel(sketch.model(sketch.op("Exp", "x")), None, lambda samples: [])
    inputs = {"x": np.ones((2, 32), np.float32)}
    reference = reference_of(
        model,
        inputs,
        Verify.onnx,
        precision="float32",
        quantised=quantised,
        infinities=False,
    )
    assert [sample.kind for sample in reference.samples] == ["", LARGE_CHANNELS][: 1 + quantised]
    for sample in reference.samples:
        np.testing.assert_allclose(sample.outputs[0], np.exp(sample.inputs["x"]), rtol=1e-5)


@pytest.mark.parametrize("infinities", [False, True])
def test_nan_is_asked_of_programs_but_not_of_tvms_own_build(infinities: bool) -> None:
    sketch = Sketch(1, 3, 8, 8)
    model = sketch.model(sketch.op("Relu", sketch.conv("x", 3, 4)))
    asked: list[int] = []

    def tvm_outputs(samples: Sequence[Inputs]) -> Outputs:
        asked.append(len(samples))
        return [[] for _ in samples]

    reference = reference_of(
        ComparedModel(model, simplify(model), tvm_outputs),
        {"x": np.ones((1, 3, 8, 8), np.float32)},
        Verify.onnx,
        precision="float32",
        quantised=False,
        infinities=infinities,
    )
    assert asked == []
    with_tvm_outputs(reference, tvm_outputs)
    assert asked == [1]
    assert [sample.kind for sample in reference.samples] == ["", NAN][: 1 + infinities]
    assert all(np.isnan(sample.outputs[0]).any() for sample in reference.samples[1:])


def test_channels_of_numbers_differ_in_size_and_indices_stay() -> None:
    indices = np.arange(3)
    assert with_large_channels({"ids": indices}) is None
    drawn = with_large_channels({"ids": indices, "x": np.ones((4, 64), np.float16)})
    assert drawn is not None
    assert drawn["ids"] is indices
    assert drawn["x"].dtype == np.float16
    sizes = np.abs(drawn["x"][0])
    assert sizes.max() > 5 * np.median(sizes)
