"""Convolutions of Relay are merged only where they compute in the same types, and keep these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from relay_passes.pipeline import apply_schedule, prepare
from runtime_ext.relay.build import build
from tests.relay.relay_sketch import inputs_of, run
from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy


def convolutions(*results: str, bias: bool = False) -> tvm.IRModule:
    """Two convolutions of one input of 16 bits, of such result types; the first may be biased."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 3, 8, 8), dtype="int16")

    def constant(shape: tuple[int, ...], dtype: str) -> Any:
        return relay.const(rng.integers(-100, 100, shape).astype(dtype), dtype)

    made = []
    for extent, result in zip((3, 1), results, strict=True):
        weight = constant((4, 3, extent, extent), "int16")
        call = relay.nn.conv2d(
            x,
            weight,
            padding=extent // 2,
            channels=4,
            kernel_size=(extent, extent),
            out_dtype=result,
        )
        if bias and extent == 3:
            call = relay.nn.bias_add(call, constant((4,), result))
        made.append(call)
    return relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.Function([x], relay.Tuple(made)))
    )


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "biased"])
def test_narrow_integers_summed_in_wide_ones_are_merged_as_such(bias: bool) -> None:
    module = convolutions("int32", "int32", bias=bias)
    inputs = inputs_of(module) | {
        "x": np.random.default_rng(1).integers(-100, 100, (1, 3, 8, 8)).astype("int16")
    }
    wanted = run(module, inputs)
    assert max(int(np.abs(part).max()) for part in wanted) > 2**15
    prepared = prepare(module)
    merged = Stage(Strategy.MERGE, ((0,), (1,)))
    scheduled = apply_schedule(prepared, Schedule(prepared.units.fingerprint, (merged,), "by hand"))
    session = build(scheduled, lanes=1).session()
    session.run(**inputs)
    for place, expected in enumerate(wanted):
        found = session.get_output(place)
        assert found.dtype == expected.dtype == np.int32
        np.testing.assert_array_equal(found, expected)


def test_mixed_types_are_not_merged() -> None:
    assert not mergeable(prepare(convolutions("int32", "int16")).units, (0, 1))
