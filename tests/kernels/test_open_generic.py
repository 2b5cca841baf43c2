"""TVM's own code of operators with open shapes, against NumPy at many shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from runtime_ext.cpu.kernel_build import build_kernel
from runtime_ext.isa.levels import isa_of
from runtime_ext.kernels.generic import Generic
from runtime_ext.kernels.open_shapes import extent_of_prim
from runtime_ext.kernels.relax_function import tensor_types
from tests.kernels.kernel_harness import AVX2
from tvm_ios.files.array_files import Array
from tvm_ios.shapes.extent import Symbol, at_values, evaluate, is_open

SYMBOLS = {
    "batch": Symbol("batch", 1, 8, hint=1),
    "length": Symbol("length", 1, 512, hint=128),
    "step": Symbol("step", 1, 16, hint=4),
}
B, L, STEP = (tirx.Var(name, "int64") for name in SYMBOLS)

Kind = tuple[Sequence[Any], str]
op: Any = relax.op


def longs(*shape: Any) -> Kind:
    return shape, "int64"


def floats(*shape: Any) -> Kind:
    return shape, "float32"


def one(value: float, dtype: str = "int64") -> Any:
    return relax.const(value, dtype)


#: By name the parameters, the operator, and what it computes of arrays.
CASES: dict[str, tuple[list[Kind | relax.ShapeType], Callable[..., Any], Callable[..., Array]]] = {
    "rows are gathered": (
        [floats(50, 384), longs(B, L)],
        lambda table, at: op.take(table, at, axis=0, mode="wrap"),
        lambda table, at: table[at],
    ),
    "a mask is cast": (
        [longs(B, 1, 1, L)],
        lambda mask: op.astype(mask, "float32"),
        lambda mask: mask.astype("float32"),
    ),
    "numbers are compared": (
        [longs(B, L)],
        lambda x: op.equal(x, one(1)),
        lambda x: x == 1,
    ),
    "one open axis": ([longs(L)], lambda x: op.add(x, one(3)), lambda x: x + 3),
    "an axis whose extent is an expression": (
        [longs(L), longs(L * 3, 2)],
        lambda x, y: op.concat([op.expand_dims(x, 1), op.reshape(y, (L, 6))], axis=1),
        lambda x, y: np.concatenate([x[:, None], y.reshape(-1, 6)], 1),
    ),
    "a mask is repeated for all rows": (
        [longs(B, L)],
        lambda x: op.broadcast_to(op.expand_dims(x, [1, 2]), (B, 3, L, L)),
        lambda x: np.broadcast_to(x[:, None, None], (len(x), 3, x.shape[1], x.shape[1])),
    ),
    "a sum over an open axis": (
        [floats(B, L, 40)],
        lambda x: op.sum(x, axis=1),
        lambda x: x.sum(1),
    ),
    "several phases with an open tensor between them": (
        [floats(B, L)],
        lambda x: op.nn.softmax(x, axis=-1),
        lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    ),
    "an extent that no tensor has": (
        [longs(B, 1), relax.ShapeType([L])],
        lambda x, _: op.broadcast_to(x, (B, L)),
        lambda x: x,
    ),
    "an axis in steps": (
        [longs(2, STEP * 32), relax.ShapeType([STEP])],
        lambda x, _: op.add(x, one(3)),
        lambda x: x + 3,
    ),
    "several open axes become one": (
        [longs(B, L, 4)],
        lambda x: op.reshape(x, (B * L, 4)),
        lambda x: x.reshape(-1, 4),
    ),
}


def function_of(parameters: Sequence[Kind | relax.ShapeType], body: Callable[..., Any]) -> Any:
    builder = relax.BlockBuilder()
    kinds = [relax.TensorType(list(k[0]), k[1]) if isinstance(k, tuple) else k for k in parameters]
    given = [relax.Var(f"p{i}", kind) for i, kind in enumerate(kinds)]
    with builder.function("kernel", given, private=True):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(body(*given)))
        builder.emit_func_output(result)
    return builder.finalize()["kernel"]


def shapes_of(function: Any) -> tuple[tuple[tuple[int, ...], str], ...]:
    types = [*(p.ty for p in function.params), *tensor_types(function.ret_ty)]
    kinds: list[Any] = [kind for kind in types if isinstance(kind, relax.TensorType)]
    return tuple(
        (tuple(extent_of_prim(e, SYMBOLS) for e in kind.shape), str(kind.dtype)) for kind in kinds
    )


def random(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> Array:
    if dtype == "float32":
        return rng.standard_normal(shape, np.float32)
    return rng.integers(0, 5, shape).astype(dtype)


def ran(
    module: Any, phases: Sequence[Any], arrays: Sequence[Array], values: Mapping[str, int]
) -> list[Array]:
    """The tensors after all phases, each in parts of which the last runs first."""
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    for phase in phases:
        tiles = evaluate(phase.tiles, values)
        scalars = [values[name] for name in phase.scalars]
        for begin, end in reversed(list(pairwise([0, tiles // 3, tiles // 2, tiles]))):
            arguments = [tensors[a] for a in phase.arguments]
            module[phase.symbol](*arguments, *scalars, begin, end)
    return [tensor.numpy() for tensor in tensors]


@pytest.mark.parametrize("name", CASES)
def test_operators_of_open_shapes(name: str) -> None:
    parameters, body, want_of = CASES[name]
    function = function_of(parameters, body)
    spec = Generic(function, shapes_of(function))
    target = tvm.target.Target(AVX2)
    artefact, module = build_kernel(spec, "open", target, isa_of(target))
    assert any(is_open(phase.tiles) for phase in artefact.phases) or name == "an axis in steps"
    rng = np.random.default_rng(0)
    for batch, length in ((1, 1), (1, 7), (2, 5), (3, 33), (1, 128)):
        values = {"batch": batch, "length": length, "step": batch}
        buffers = (*spec.shapes, *artefact.scratch)
        arrays = [random(shape, dtype, rng) for shape, dtype in at_values(buffers, values)]
        inputs = len(spec.shapes) - 1
        want, got = want_of(*arrays[:inputs]), ran(module, artefact.phases, arrays, values)[inputs]
        assert name == "an extent that no tensor has" or got.shape == want.shape
        assert np.allclose(got, want, rtol=1e-5, atol=1e-5), values
