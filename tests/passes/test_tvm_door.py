"""TVM finds the pipeline that schedules by its name, and the passes have a short one."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

import relay_passes
import tvm_ios.passes
from runtime_ext.build import build
from tests.onnx_sketch import Sketch
from tests.refusals import refused
from tvm_ios.errors import UserError


def branches() -> tvm.IRModule:
    sketch = Sketch(1, 4, 8, 8)
    a, b = (sketch.op("Softmax", sketch.conv("x", 4, 4), axis=axis) for axis in (1, 2))
    return from_onnx(sketch.model(sketch.op("Add", a, b)))


def test_importing_tvm_registers_the_pipeline() -> None:
    assert "tvm_ios" in relax.pipeline.PIPELINE_MAP
    # As if TVM were imported again.
    tvm_ios.passes.register()


def test_what_the_pipeline_returns_is_built_by_tvm_and_by_us() -> None:
    module = branches()
    scheduled = relax.get_pipeline("tvm_ios", policy="greedy", cost="v100")(module)
    assert relay_passes.schedule_of(scheduled).policy == "greedy"
    x = np.random.default_rng(0).standard_normal((1, 4, 8, 8)).astype(np.float32)
    plain, ours = (
        relax.VirtualMachine(relax.build(each, target="llvm"), tvm.cpu())["main"](
            tvm.runtime.tensor(x)
        ).numpy()
        for each in (module, scheduled)
    )
    session = build(scheduled, lanes=2).session()
    session.run(x=x)
    for each in (ours, session.get_output(0)):
        np.testing.assert_allclose(each, plain, rtol=1e-5, atol=1e-6)


def test_a_wrong_parameter_is_refused_when_the_pipeline_is_asked_for() -> None:
    with refused(UserError, "nosuch"):
        relax.get_pipeline("tvm_ios", policy="nosuch")


def test_passes_have_a_short_name() -> None:
    assert tvm_ios.passes.IOSSchedule is relay_passes.IOSSchedule
    assert {*tvm_ios.passes.__all__} <= {*relay_passes.__all__}
    with pytest.raises(AttributeError, match="nosuch"):
        tvm_ios.passes.nosuch  # noqa: B018
