"""Kernels of open extents, each compiled once, against NumPy at many shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from runtime_ext.kernels.expression import ACC, Access
from runtime_ext.kernels.spec import Mean, Normalisation, Statement
from tests.kernels.kernel_harness import AVX2, AVX512, host_target
from tests.kernels.open_kernels import OpenKernel
from tvm_ios.files.array_files import Array
from tvm_ios.graph.extent import Symbol, evaluate, extent_of

TARGETS = {"avx2": AVX2} | ({"avx512": AVX512} if host_target() is AVX512 else {})
on_targets = pytest.mark.parametrize("target", TARGETS)

B = extent_of(Symbol("batch", 1, 8, hint=1))
L = extent_of(Symbol("length", 1, 512, hint=128))
#: A length that has a step.
LONG = extent_of(Symbol("step", 1, 16, hint=4), 32)
#: Rows of whole cache lines.
PADDED = (L + 15) // 16 * 16
HEADS = 3
#: All small lengths, of every remainder of vectors and register tiles, and some large ones.
SHAPES = [(1, length) for length in (*range(1, 36), 47, 48, 49, 64, 100)] + [(3, 5), (2, 33)]

rng = np.random.default_rng(0)


def random(*shape: int) -> Array:
    return rng.standard_normal(shape, np.float32)


def in_rows(array: Array, row: int) -> Array:
    """The last axis in rows of memory; what is behind it is no number."""
    whole = np.full((*array.shape[:-1], row), np.nan, np.float32)
    whole[..., : array.shape[-1]] = array
    return whole


def nothing(*shape: int) -> Array:
    return np.full(shape, np.nan, np.float32)


def compared(
    kernel: OpenKernel,
    values: Mapping[str, int],
    arrays: Sequence[Array],
    want: Array,
    tolerance: float = 1e-5,
) -> None:
    """Compare the last tensor's first elements of each row, and the bits of two partitions."""
    tiles = kernel.tiles(values)
    got = kernel.run(values, arrays)[-1]
    parts = kernel.run(values, arrays, rng.integers(0, tiles + 1, 3).tolist())[-1]
    have = got[..., : want.shape[-1]]
    assert have.tobytes() == parts[..., : want.shape[-1]].tobytes(), values
    error = np.abs(have - want).max() / np.abs(want).max()
    assert error < tolerance, (values, error)


@cache
def kernel_of(spec: Any, target: str) -> OpenKernel:
    return OpenKernel(spec, TARGETS[target])


def shapes() -> Iterator[dict[str, int]]:
    for batch, length in SHAPES:
        yield {"batch": batch, "length": length}


def softmax_spec(row: int) -> Normalisation:
    access = Access(0, 0, (HEADS * L * row, L * row, row, 1))
    stored = Statement(ACC, Access(1, 0, access.strides), 0, L)
    buffers = ((B, HEADS, L, row),) * 2
    return Normalisation(buffers, "softmax", (B, HEADS, L), L, access, ACC, 0.0, (stored,))


def softmax(x: Array) -> Array:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@on_targets
@pytest.mark.parametrize("row", [PADDED, L], ids=["padded", "exact"])
def test_softmax_of_any_length(row: int, target: str) -> None:
    kernel = kernel_of(softmax_spec(row), target)
    for values in shapes():
        batch, length = values.values()
        x, pitch = random(batch, HEADS, length, length) * 3, evaluate(row, values)
        arrays = [in_rows(x, pitch), nothing(batch, HEADS, length, pitch)]
        compared(kernel, values, arrays, softmax(x))


@on_targets
def test_softmax_of_a_length_in_steps(target: str) -> None:
    access = Access(0, 0, (0, 0, LONG, 1))
    stored = Statement(ACC, Access(1, 0, access.strides), 0, LONG)
    spec = Normalisation(
        ((5, LONG), (5, LONG)), "softmax", (1, 1, 5), LONG, access, ACC, 0.0, (stored,)
    )
    kernel = kernel_of(spec, target)
    for step in (1, 2, 3, 8):
        x = random(5, 32 * step)
        compared(kernel, {"step": step}, [x, nothing(*x.shape)], softmax(x))


@on_targets
def test_softmax_along_an_open_axis_that_is_not_innermost(target: str) -> None:
    """Elements of a row are apart, so that nothing behind the last one may be read."""
    access = Access(0, 0, (0, 0, 1, 4))
    stored = Statement(ACC, Access(1, 0, access.strides), 0, L)
    spec = Normalisation(((L, 4),) * 2, "softmax", (1, 1, 4), L, access, ACC, 0.0, (stored,))
    kernel = kernel_of(spec, target)
    for length in (1, 2, 7, 16, 17, 33):
        x = random(length, 4)
        compared(kernel, {"length": length}, [x, nothing(length, 4)], softmax(x.T).T)


@on_targets
@pytest.mark.parametrize("count", [384, 37, L], ids=["384", "37", "open"])
def test_layer_norm_of_any_rows(count: int, target: str) -> None:
    at = Access(0, 0, (L * count, 0, count, 1))
    value = ("add", ("mul", ACC, ("load", Access(1, 0, (0, 0, 0, 1)))), ("const", 0.5))
    stored = Statement(value, Access(2, 0, at.strides), 0, count)
    buffers = ((B, L, count), (count,), (B, L, count))
    spec = Normalisation(buffers, "layer_norm", (B, 1, L), count, at, ACC, 1e-5, (stored,))
    kernel = kernel_of(spec, target)
    for values in shapes():
        channels = evaluate(count, values)
        x = random(values["batch"], values["length"], channels) + 3
        scale, x64 = random(channels), x.astype(np.float64)
        centred = x64 - x64.mean(-1, keepdims=True)
        want = centred / np.sqrt(x64.var(-1, keepdims=True) + 1e-5) * scale + 0.5
        compared(kernel, values, [x, scale, nothing(*x.shape)], want, 2e-5)


@on_targets
def test_mean_of_any_pixels(target: str) -> None:
    data = Access(0, 0, (L * 100, 0, 100, 1))
    stored = Statement(ACC, Access(1, 0, (100, 0, 0, 1)), 0, 100)
    spec = Mean(((B, L, 100), (B, 100)), B, (1, L), 100, data, ACC, (stored,))
    kernel = kernel_of(spec, target)
    for values in shapes():
        x = random(values["batch"], values["length"], 100)
        compared(kernel, values, [x, nothing(len(x), 100)], x.mean(1, dtype=np.float64))
