"""Random numbers: nothing where zero multiplies them, refused otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.onnx_sketch import Sketch, kinds, run_on, simplify_checked
from tests.refusals import refused
from tvm_ios.graph.elements import GraphError
from tvm_ios.models.load import load_onnx
from tvm_ios.models.source import ModelSource
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
    simple = simplify_checked(model, within=0)
    require_supported("m", simple)
    assert "RandomNormalLike" not in kinds(simple)


@pytest.mark.parametrize("kind", ["RandomNormalLike", "RandomUniformLike", "Bernoulli"])
@pytest.mark.parametrize("factor", [0.5, None])
def test_what_counts_is_refused(kind: str, factor: float | None) -> None:
    s = Sketch(2, 3)
    noise = s.op(kind, s.normal(2, 3))
    other = "x" if factor is None else s.const(factor)
    model = s.model(s.op("Add", "x", s.op("Mul", noise, other)))
    with refused(GraphError, kind, "m", "each run", "input"):
        require_supported("m", simplify(model))


def test_numbers_may_be_drawn_once(tmp_path: Path) -> None:
    """Of both kinds, with and without a shape of their own; each run then has the same."""
    s = Sketch("batch", 400)
    noise = s.op("RandomNormalLike", "x", mean=2.0, scale=0.5, seed=7.0)
    uniform = s.op("RandomUniform", shape=[400], low=-1.0, high=3.0)
    path = tmp_path / "m.onnx"
    onnx.save(s.model(noise, s.op("Add", "x", uniform)), path)

    def drawn(seed: int) -> Any:
        source = ModelSource(str(path), shapes={"x": (2, 400)}, random_seed=seed)
        model = load_onnx(source)
        return run_on(model, {"x": np.zeros((2, 400), np.float32)})

    normal, level = drawn(3)
    assert abs(normal.mean() - 2) < 0.1
    assert abs(normal.std() - 0.5) < 0.1
    assert -1 <= level.min() < -0.9
    assert 2.9 < level.max() < 3
    assert all(map(np.array_equal, drawn(3), [normal, level]))
    assert not np.array_equal(drawn(4)[0], normal)
