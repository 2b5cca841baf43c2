"""Attention as one kernel: the bits of its kernels apart, whatever its shapes, and right ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tvm import relax

from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.ir_form import CHAIN
from runtime_ext.isa.x86 import AVX
from runtime_ext.kernels.chain import Attention
from runtime_ext.units import plans
from runtime_ext.units.chains import chained
from tests.fast_run import examples
from tests.kernels.kernel_harness import check, compiler, make_unit, random_tensors, run_unit
from tvm_ios.files.array_files import Array

op = relax.op


@dataclass(frozen=True)
class Shape:
    """Of an attention: batch, heads, queries, keys, and features of keys and of values."""

    batch: int
    heads: int
    queries: int
    keys: int
    features: int
    values: int
    #: Axes of batch, queries and keys that a mask has, if there is one.
    mask: tuple[bool, bool, bool] | None = None
    #: Whether the heads' results lie beside each other.
    joined: bool = True

    @property
    def inputs(self) -> list[tuple[int, ...]]:
        outer = self.batch, self.heads
        shapes = [
            (*outer, self.queries, self.features),
            (*outer, self.features, self.keys),
            (*outer, self.keys, self.values),
        ]
        if self.mask is not None:
            batch, queries, keys = self.mask
            pixels = self.queries if queries else 1, self.keys if keys else 1
            shapes.append((self.batch if batch else 1, 1, *pixels))
        return shapes

    @property
    def output(self) -> tuple[int, ...]:
        if self.joined:
            return (self.batch, self.queries, self.heads * self.values)
        return (self.batch, self.heads, self.queries, self.values)

    def function(self) -> Any:
        """As models have it: a factor, a mask, and the heads joined."""

        def body(emit: Any, q: Any, k: Any, v: Any, *mask: Any) -> Any:
            x = emit(op.divide(emit(op.matmul(q, k)), relax.const(self.features**0.5)))
            if mask:
                x = emit(op.add(x, mask[0]))
            y = emit(op.matmul(emit(op.nn.softmax(x, axis=-1)), v))
            if not self.joined:
                return op.tanh(y)
            return op.reshape(emit(op.permute_dims(y, [0, 2, 1, 3])), self.output)

        return make_unit(self.inputs, [], body).with_attr(CHAIN, 1)

    def expected(self, q: Array, k: Array, v: Array, *mask: Array) -> Array:
        """In float64."""
        q, k, v = (a.astype(np.float64) for a in (q, k, v))
        x = q @ k / self.features**0.5 + (mask[0] if mask else 0)
        x = np.exp(x - x.max(axis=-1, keepdims=True))
        y = (x / x.sum(axis=-1, keepdims=True)) @ v
        return y.transpose(0, 2, 1, 3).reshape(self.output) if self.joined else np.tanh(y)


def outputs(folder: Path, shape: Shape, arguments: list[Array], rows: int | None) -> Array:
    """What the kernel computes with tiles of so many rows, or for None what those apart do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "chained", lambda plan: rows and chained(plan, rows))
        # A compiler plans equal units once.
        kernels, layouts = compiler.__wrapped__(str(folder)), ("",) * (len(arguments) + 1)
        source = plans.UnitSource(shape.function(), layouts)
        unit = kernels.compile({"unit": source})["unit"]
    assert unit.forms[0] == ("attention" if rows else "product")
    assert not (rows and unit.code.scratch)
    (result,) = run_unit(kernels, unit, layouts, arguments, [], shapes=[shape.output])
    return result


CASES = {
    "one tile": Shape(1, 2, 5, 7, 3, 4),
    "several tiles": Shape(1, 3, 53, 53, 8, 16),
    "batch and mask of keys": Shape(3, 2, 26, 19, 5, 9, (True, False, True)),
    "causal mask": Shape(1, 2, 30, 30, 8, 8, (False, True, True)),
    "of other tokens": Shape(2, 4, 3, 65, 8, 33),
    "apart": Shape(2, 2, 25, 31, 6, 6, joined=False),
    "one head": Shape(1, 1, 50, 11, 4, 12),
}


@pytest.mark.parametrize("name", CASES)
def test_attention_is_one_kernel_without_scratch(name: str, kernels_folder: Path) -> None:
    shape = CASES[name]
    layouts = ("",) * (len(shape.inputs) + 1)
    unit = check(str(kernels_folder), shape.function(), layouts)
    assert unit.forms == ("attention",)
    assert not unit.code.scratch


@pytest.mark.parametrize("target", ["sse", "avx2"])
def test_attention_for_narrower_vectors(target: str, kernels_folder: Path) -> None:
    shape = CASES["batch and mask of keys"]
    check(str(kernels_folder), shape.function(), ("",) * 5, target=target)


@examples(10, suppress_health_check=[HealthCheck.too_slow])
@given(
    shape=st.builds(
        Shape,
        *(st.integers(1, 3), st.integers(1, 3), st.integers(1, 40), st.integers(1, 70)),
        *(st.integers(1, 20), st.integers(1, 40)),
        st.none() | st.tuples(st.booleans(), st.booleans(), st.booleans()),
        st.booleans(),
    ),
    data=st.data(),
)
def test_the_bits_are_those_of_kernels_apart(
    shape: Shape, data: st.DataObject, kernels_folder: Path
) -> None:
    arguments = random_tensors(shape.inputs)
    if shape.mask is not None:
        hidden = arguments[3] > 0.5
        hidden[..., 0] = False
        arguments[3] = np.where(hidden, np.float32(-np.inf), arguments[3])
    rows = data.draw(st.integers(1, shape.queries))
    joined = outputs(kernels_folder, shape, arguments, rows)
    assert joined.tobytes() == outputs(kernels_folder, shape, arguments, None).tobytes()
    np.testing.assert_allclose(joined, shape.expected(*arguments), rtol=1e-4, atol=1e-5)


def test_scores_that_are_in_memory(kernels_folder: Path) -> None:
    """What makes them is another kernel: only the softmax and the product are one."""

    def body(emit: Any, a: Any, b: Any, v: Any) -> Any:
        x = emit(op.nn.softmax(emit(op.add(a, b)), axis=-1))
        return op.matmul(x, v)

    scores = (2, 3, 27, 21)
    function = make_unit([scores, (2, 1, 1, 21), (2, 3, 21, 5)], [], body).with_attr(CHAIN, 1)
    unit = check(str(kernels_folder), function, ("",) * 4)
    assert unit.forms == ("pointwise", "attention")


@pytest.mark.parametrize("read", ["scores", "softmax"])
def test_what_others_read_is_in_memory(read: str, kernels_folder: Path) -> None:
    def body(emit: Any, q: Any, k: Any, v: Any) -> Any:
        x = emit(op.matmul(q, k))
        y = emit(op.nn.softmax(x, axis=-1))
        return op.add(emit(op.matmul(y, v)), x if read == "scores" else y)

    function = make_unit([(3, 6, 4), (3, 4, 6), (3, 6, 6)], [], body).with_attr(CHAIN, 1)
    unit = check(str(kernels_folder), function, ("",) * 4)
    expected = {
        "scores": ("product", "attention"),
        "softmax": ("product", "normalisation", "product"),
    }
    assert unit.forms == expected[read]


def test_scores_of_too_many_keys_are_no_tile() -> None:
    def rows_of(queries: int, keys: int) -> int | None:
        function = Shape(1, 1, queries, keys, 4, 4).function()
        source, space = plans.UnitSource(function, ("",) * 4), VectorSpace(AVX)
        spec = plans.plan_unit(source, space).kernels[0].spec
        return spec.rows if isinstance(spec, Attention) else None

    assert rows_of(500, 1000) == 24
    assert rows_of(60, 1000) == 6
    assert rows_of(500, 4000) == 6
    assert rows_of(500, 6000) is None
