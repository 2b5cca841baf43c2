"""Weights of a few bits are constants of bytes in the program, too."""

from __future__ import annotations

import numpy as np
import pytest

from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relax.importer import import_onnx
from runtime_ext.build import build
from tests.contrib_sketch import normal, one, packed
from tests.onnx_sketch import relative_error, run_on
from tvm_ios.onnx.simplify import simplify
from tvm_ios.policies.sequential import sequential_schedule


@pytest.mark.parametrize("bits", [4, 8])
def test_they_are_unpacked_when_it_runs(bits: int) -> None:
    (weight, scales, zeros), attributes = packed(bits, 128, 64, 32)
    inputs = [normal(3, 128), weight, scales, zeros]
    model, feeds = one("MatMulNBits", inputs, **attributes)
    prepared = prepare(import_onnx(simplify(model)), "packed")
    built = build(apply_schedule(prepared, sequential_schedule(prepared.units)), lanes=1)
    session = built.session()
    session.run(**feeds)
    assert relative_error([session.get_output()], run_on(model, feeds)) < 1e-5
    arrays = built.constants.values()
    assert weight.size in [array.size for array in arrays if array.dtype == np.uint8]
    assert all(array.size < 128 * 64 / 8 for array in arrays if array.dtype == np.float32)
