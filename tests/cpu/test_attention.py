"""Softmax, layer norms, products of data and transposes against TVM unscheduled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tvm import relax

from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.x86 import AVX512
from runtime_ext.units.plans import plan_unit
from runtime_ext.units.unit import UnitSource
from tests.fast_run import examples
from tests.kernels.kernel_harness import check, compiler, make_unit, run_unit, sliced
from tests.units.unit_rows import layer_norm, product, softmax

op = relax.op
TARGETS = ("host", "avx2", "sse")


def kernels_of(function: Any, layouts: tuple[str, ...]) -> list[str]:
    plan = plan_unit(UnitSource(function, layouts), VectorSpace(AVX512))
    return [type(kernel.spec).__name__ for kernel in plan.kernels]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(1, 3, 5, 37), (4, 64), (2, 7, 3), (1, 200)])
@pytest.mark.parametrize("make", [softmax, layer_norm])
def test_rows(make: Any, shape: tuple[int, ...], target: str, kernels_folder: Path) -> None:
    function = make(shape)
    assert kernels_of(function, ("", "")) == ["Normalisation"]
    check(str(kernels_folder), function, ("", ""), target=target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3, 13, 7), (2, 3, 7, 21)),
        ((1, 4, 16, 64), (1, 4, 64, 64)),
        ((3, 1, 5), (5, 4)),
        ((5, 9), (2, 9, 33)),
        ((1, 2), (2, 1)),
        ((2, 53, 6), (2, 6, 37)),
        ((1, 25, 3), (3, 100)),
    ],
    ids=str,
)
def test_products(a: Any, b: Any, target: str, kernels_folder: Path) -> None:
    function = product(a, b)
    assert kernels_of(function, ("", "", "")) == ["Product"]
    check(str(kernels_folder), function, ("", "", ""), target=target)


@examples(12, suppress_health_check=[HealthCheck.too_slow])
@given(
    perm=st.permutations(range(4)),
    shape=st.lists(st.integers(1, 9), min_size=4, max_size=4),
    after=st.booleans(),
)
def test_transposes_are_views(
    perm: list[int], shape: list[int], after: bool, kernels_folder: Path
) -> None:
    def body(emit: Any, x: Any) -> Any:
        y = emit(op.permute_dims(emit(op.tanh(x)), perm))
        if after:
            y = emit(op.reshape(y, [int(np.prod(shape))]))
        return op.nn.relu(y)

    function = make_unit([tuple(shape)], [], body)
    assert "Generic" not in kernels_of(function, ("", ""))
    check(str(kernels_folder), function, ("", ""))


def test_a_head_of_attention(kernels_folder: Path) -> None:
    """Scores, mask, softmax, values, heads joined: no kernel of TVM's, and no copy between."""

    def scores(emit: Any, q: Any, k: Any, mask: Any) -> Any:
        x = emit(op.multiply(emit(op.matmul(q, k)), relax.const(0.125)))
        return op.nn.softmax(emit(op.add(x, mask)), axis=-1)

    q, k = (1, 3, 12, 8), (1, 3, 8, 12)
    function = make_unit([q, k], [(12, 12)], scores)
    assert kernels_of(function, ("", "", "")) == ["Product", "Normalisation"]
    check(str(kernels_folder), function, ("", "", ""))

    def joined(emit: Any, weights: Any, values: Any) -> Any:
        y = emit(op.permute_dims(emit(op.matmul(weights, values)), [0, 2, 1, 3]))
        return op.reshape(y, (1, 12, 24))

    function = make_unit([(1, 3, 12, 12), q], [], joined)
    assert kernels_of(function, ("", "", "")) == ["Product", "Pointwise"]
    check(str(kernels_folder), function, ("", "", ""))


def test_a_result_that_lies_apart_or_is_changed(kernels_folder: Path) -> None:
    """Exponentials wait where the result goes: in a slice, or where no place is theirs."""

    def changed(emit: Any, x: Any, y: Any) -> Any:
        return op.multiply(emit(op.tanh(emit(op.nn.softmax(x, axis=-1)))), y)

    function = make_unit([(2, 5, 6, 19), (2, 5, 6, 19)], [], changed)
    assert kernels_of(function, ("",) * 3) == ["Normalisation"]
    check(str(kernels_folder), function, ("",) * 3)
    plain = softmax((2, 5, 6, 19))
    for layouts in (("", "NHWC"), ("NHWC", ""), sliced(plain, ("", "")), ("NHWC", "NHWC")):
        check(str(kernels_folder), plain, layouts)


def test_a_mask_of_minus_infinity_leaves_nothing(kernels_folder: Path) -> None:
    x = np.array([[1.0, -np.inf, 2.0, -np.inf], [-1000.0, 0.0, 1000.0, 999.0]], np.float32)
    function = make_unit([x.shape], [], lambda emit, p: op.nn.softmax(p, axis=-1))
    kernels = compiler(str(kernels_folder))
    unit = kernels.compile({"unit": UnitSource(function, ("", ""))})["unit"]
    (output,) = run_unit(kernels, unit, ("", ""), [x], [])
    grown = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(output, grown / grown.sum(axis=1, keepdims=True), rtol=1e-6)
