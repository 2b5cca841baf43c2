"""What is right is what ONNX says, not what TVM makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from relay_passes import SearchOptions
from relay_passes.first_wrong_operator import bisect
from relay_passes.relax import dialect
from tests.brief import shorten
from tests.onnx_sketch import Sketch
from tests.refusals import refused
from tvm_ios.api import Options, optimize
from tvm_ios.api.result import Result
from tvm_ios.contest import contest
from tvm_ios.contest.outputs import VerificationError, Verify
from tvm_ios.ios.lazy import Budget
from tvm_ios.policies.policy import Limits

pytest.importorskip("onnxruntime")

Optimize = Callable[..., Result]


@pytest.fixture
def optimized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Optimize:
    """Optimises a model with the policies that are given, besides ``sequential``."""
    shorten(monkeypatch.setattr)

    def run(
        model: onnx.ModelProto, policies: Sequence[str] = (), verify: Verify = Verify.onnx
    ) -> Result:
        onnx.save(model, tmp_path / "model.onnx")
        return optimize(
            tmp_path / "model.onnx",
            tmp_path / "out",
            Options(
                # What would gain nothing has a program, too.
                search=SearchOptions(lanes=1, limits=Limits(budget=Budget(12, everything=True))),
                policies=policies,
                verify=verify,
            ),
        )

    return run


@pytest.fixture
def misread(monkeypatch: pytest.MonkeyPatch) -> None:
    """TVM's importer takes a sigmoid for a hyperbolic tangent."""
    right = dialect.DIALECT.import_onnx

    def wrong(model: onnx.ModelProto, dump_ir: Path | None) -> object:
        for node in model.graph.node:
            node.op_type = {"Sigmoid": "Tanh"}.get(node.op_type, node.op_type)
        return right(model, dump_ir)

    monkeypatch.setattr(dialect, "DIALECT", replace(dialect.DIALECT, import_onnx=wrong))


def with_nan() -> onnx.ModelProto:
    """Of negative numbers a logarithm is NaN, which TVM's own relu makes zero."""
    sketch = Sketch(1, 3, 8, 8)
    return sketch.model(sketch.op("Relu", sketch.op("Log", sketch.conv("x", 3, 4))))


def cancelling(then: str = "Identity") -> onnx.ModelProto:
    """Two powers that nearly are the same, whose difference is that of roundings, too."""
    sketch = Sketch(1, 3, 8, 8)
    near = sketch.op("Mul", "x", sketch.const(np.full((8, 8), 1.00001)))
    moved = sketch.op("Sub", sketch.op("Exp", near), sketch.op("Exp", "x"))
    return sketch.model(sketch.op(then, sketch.op("Mul", moved, sketch.const(1e5))))


def branches() -> onnx.ModelProto:
    """One of several has a sigmoid, the result of which others hide behind."""
    sketch = Sketch(1, 3, 8, 8)
    left = sketch.op("Relu", sketch.conv("x", 3, 4))
    right = sketch.op("Sigmoid", sketch.conv("x", 3, 4))
    shape = sketch.op("Shape", right)
    flat = sketch.op("Reshape", sketch.op("Add", left, right), shape)
    return sketch.model(sketch.conv(flat, 4, 5), sketch.op("Neg", left))


def test_a_model_is_kept_that_tvm_computes_wrongly(optimized: Optimize) -> None:
    done = optimized(with_nan())
    errors = {row.policy: row.max_rel_error for row in done.policies}
    assert errors.keys() == {"sequential"}
    assert (errors["sequential"] or 0) < 1e-5
    assert any(note.startswith("TVM's own build differs") for note in done.notes)
    assert str(done.reference).startswith("ONNX Runtime")


@pytest.mark.usefixtures("misread")
def test_the_first_wrong_operator_is_named(optimized: Optimize, tmp_path: Path) -> None:
    with refused(VerificationError, "sequential", "ONNX Runtime", "operator Sigmoid (output 'v3_0"):
        optimized(branches())
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("misread")
def test_where_only_tvm_is_asked_its_errors_are_not_seen(optimized: Optimize) -> None:
    done = optimized(branches(), verify=Verify.tvm)
    assert done.reference == "TVM's own build"
    assert max(row.max_rel_error or 0 for row in done.policies) < 1e-5


@pytest.mark.usefixtures("misread")
def test_what_is_not_measured_is_verified_where_it_runs(tmp_path: Path) -> None:
    onnx.save(branches(), tmp_path / "model.onnx")
    options = Options(search=SearchOptions(lanes=1), cost="v100", policies=["sequential"])
    model, out = tmp_path / "model.onnx", tmp_path / "out"
    with refused(VerificationError, "sequential", "ONNX Runtime"):
        optimize(model, out, options)
    assert not out.exists()
    assert optimize(model, out, replace(options, verify=Verify.off)).kept == "sequential"


def test_a_reference_is_no_more_exact_than_its_own_rounding(optimized: Optimize) -> None:
    done = optimized(cancelling())
    assert 1e-3 < (done.policies[-1].max_rel_error or 0) < 1e-2
    assert "which itself differs by" in str(done.reference)


@pytest.mark.usefixtures("misread")
def test_what_is_wrong_is_so_beyond_rounding(optimized: Optimize) -> None:
    with refused(VerificationError, "sequential", "which itself differs by"):
        optimized(cancelling("Sigmoid"))


@pytest.mark.usefixtures("misread")
def test_one_may_verify_nothing(optimized: Optimize) -> None:
    done = optimized(branches(), verify=Verify.off)
    assert done.reference is None
    assert {(row.max_abs_error, row.max_rel_error) for row in done.policies} == {(None, None)}
    assert done.notes == ()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [("sequential", "built anew"), ("greedy", "one unit after another is right")],
)
def test_what_differs_is_refused(
    wrong: str, named: str, optimized: Optimize, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contest.verify_outputs
    monkeypatch.setattr(
        contest,
        "verify_outputs",
        lambda policy, outputs, *rest: before(
            policy, [(1 + (policy == wrong)) * o for o in outputs], *rest
        ),
    )
    with refused(VerificationError, wrong, "ONNX Runtime", named):
        optimized(branches(), ["greedy"])


def test_bisection_leaves_out_what_cannot_be_told() -> None:
    def differs(step: int) -> bool:
        if step in (4, 7):
            raise RuntimeError
        return step >= 7

    asked: list[int] = []
    assert bisect(10, differs, asked.append, float("inf")) == (6, 8)
    assert asked == [0, 1, 2, 3, 4][: len(asked)]
    assert bisect(10, differs, asked.append, 0.0) == (0, 10)
    assert bisect(1, differs, asked.append, float("inf")) == (0, 1)


def test_a_second_opinion_is_asked_of_what_onnx_runtime_makes_finite(optimized: Optimize) -> None:
    """Its pooling begins with the lowest number, also where all are minus infinity."""
    sketch = Sketch(1, 3, 8, 8)
    nothing = sketch.const(np.full((1, 3, 8, 8), -np.inf))
    masked = sketch.op("Where", sketch.op("Greater", "x", sketch.const(9.0)), "x", nothing)
    pooled = sketch.op("MaxPool", masked, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    done = optimized(sketch.model(pooled))
    assert str(done.reference).startswith("onnx.reference 1")
    assert "from which ONNX Runtime 1" in str(done.reference)
