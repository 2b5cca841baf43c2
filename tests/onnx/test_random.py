"""Random numbers: nothing where zero multiplies them, refused otherwise."""

from __future__ import annotations

import pytest

from tests.onnx_sketch import Sketch, kinds, relative_error, run
from tests.refusals import refused
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.simplify import simplify
from tvm_ios.onnx.supported import require_supported


@pytest.mark.parametrize("between", ["nothing", "a factor", "an axis"])
def test_what_zero_multiplies_is_left_out(between: str) -> None:
    s = Sketch(2, 3)
    noise = s.op("RandomNormalLike", "x")
    if between == "a factor":
        noise = s.op("Mul", s.op("Exp", "x"), noise)
    elif between == "an axis":
        noise = s.op("Transpose", s.op("Transpose", noise, perm=[1, 0]), perm=[1, 0])
    model = s.model(s.op("Add", "x", s.op("Mul", noise, s.const(0.0))))
    simple = simplify(model)
    require_supported("m", simple)
    assert "RandomNormalLike" not in kinds(simple)
    assert relative_error(run(simple), run(model)) == 0


@pytest.mark.parametrize("kind", ["RandomNormalLike", "RandomUniformLike", "Bernoulli"])
@pytest.mark.parametrize("factor", [0.5, None])
def test_what_counts_is_refused(kind: str, factor: float | None) -> None:
    s = Sketch(2, 3)
    noise = s.op(kind, s.normal(2, 3))
    other = "x" if factor is None else s.const(factor)
    model = s.model(s.op("Add", "x", s.op("Mul", noise, other)))
    with refused(GraphError, kind, "m", "each run", "input"):
        require_supported("m", simplify(model))
