"""TVM's functions in tiles and vectors of ours: the same numbers in any partition of the tiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

from runtime_ext.kernels.default_schedule import default_schedule
from runtime_ext.kernels.generic import prim_func
from runtime_ext.units.unit import UnitSource
from tests.kernels.kernel_harness import (
    check,
    compiler,
    host_target,
    make_unit,
    random_tensors,
    run_unit,
)

op = relax.op
TARGET = tvm.target.Target(host_target())


def unit(operator: Any, *shapes: tuple[int, ...], **attributes: Any) -> Any:
    """An operator of some tensors, all of them data."""
    return make_unit(shapes, [], lambda emit, *tensors: operator(*tensors, **attributes))


CASES = {
    "convolution": unit(op.nn.conv1d, (1, 8, 48), (9, 8, 3), padding=1),
    "in rows of no whole vectors": unit(op.nn.conv1d, (1, 8, 21), (40, 8, 3)),
    "in parts of rows": unit(op.nn.conv1d, (1, 8, 98), (2, 8, 3), padding=1),
    "depthwise": unit(op.nn.conv1d, (1, 40, 32), (40, 1, 5), padding=2, groups=40),
    "volumes": unit(op.nn.conv3d, (1, 3, 4, 5, 16), (4, 3, 3, 3, 3), padding=1),
    "transposed": unit(op.nn.conv1d_transpose, (1, 8, 16), (8, 4, 4), strides=2, padding=1),
    "product": unit(op.matmul, (1, 2, 3, 7, 18), (1, 2, 3, 18, 16)),
    "mean of columns": unit(op.mean, (1, 30, 64), axis=1),
    "mean of rows": unit(op.mean, (3, 5, 40), axis=2),
    "sum of planes": unit(op.sum, (3, 7, 48), axis=(1, 2), keepdims=True),
    "sum of all": unit(op.sum, (3, 7, 48)),
    "product with rows": unit(op.matmul, (1, 1, 2, 3, 32), (1, 1, 2, 32, 1)),
    "largest of columns": unit(op.max, (2, 30, 3, 16), axis=1),
    "logarithm of softmax": unit(op.nn.log_softmax, (2, 30, 16), axis=1),
    "moved": unit(op.permute_dims, (1, 2, 3, 4, 5, 6), axes=(0, 3, 1, 4, 2, 5)),
    "one long row": unit(op.add, (1, 1, 1, 1, 1000), (1, 1, 1, 1, 1)),
    "a prime row": unit(op.add, (1, 1, 3, 1, 101), (1, 1, 3, 1, 1)),
}


@pytest.mark.parametrize("case", CASES)
def test_tiles_compute_what_tvm_does(case: str, kernels_folder: Path) -> None:
    function = CASES[case]
    check(str(kernels_folder), function, [""] * (len(function.params) + 1))


@pytest.mark.parametrize(
    ("case", "tiles", "vector"),
    [
        # Channels are tiles.
        ("in rows of no whole vectors", 40, 0),
        # Two channels are too few; of 98 numbers there are no parts of a vector's length but 14.
        ("in parts of rows", 14, 0),
        ("mean of columns", 4, 16),
        ("largest of columns", 6, 16),
        # LLVM does these by itself.
        ("depthwise", 40, 0),
        # Rows are what is added up.
        ("mean of rows", 15, 10),
        ("sum of planes", 3, 16),
        ("one long row", 40, 0),
        ("a prime row", 3, 0),
    ],
)
def test_tiles_and_vectors(case: str, tiles: int, vector: int) -> None:
    function = default_schedule(prim_func(CASES[case], TARGET))
    kinds: dict[Any, list[int]] = {}
    loops: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.For, loops.append))
    for loop in loops:
        kinds.setdefault(loop.kind, []).append(int(loop.extent))
    assert tiles in kinds[tirx.ForKind.PARALLEL]
    assert set(kinds.get(tirx.ForKind.VECTORIZED, [0])) == {vector}


def test_not_a_number_passes_through_vectors(kernels_folder: Path) -> None:
    function = CASES["largest of columns"]
    kernels = compiler(str(kernels_folder))
    compiled = kernels.compile({"unit": UnitSource(function, ("", ""))})["unit"]
    data = np.zeros((2, 30, 3, 16), np.float32)
    data[0, 0, 1, 2] = data[0, 29, 0, 3] = data[1, 7, 2, 15] = np.nan
    data[1, :, 0, 0] = -np.inf
    (result,) = run_unit(kernels, compiled, ("", ""), [data], [])
    np.testing.assert_array_equal(result, data.max(axis=1))


def test_not_a_number_passes_through_windows(kernels_folder: Path) -> None:
    function = unit(op.nn.max_pool1d, (1, 4, 41), pool_size=3, strides=2)
    kernels = compiler(str(kernels_folder))
    compiled = kernels.compile({"unit": UnitSource(function, ("", ""))})["unit"]
    (data,) = random_tensors([(1, 4, 41)])
    data[0, 0, 0] = data[0, 1, 1] = data[0, 2, 2] = data[0, 3, 40] = np.nan
    (result,) = run_unit(kernels, compiled, ("", ""), [data], [])
    windows = np.lib.stride_tricks.sliding_window_view(data, 3, axis=2)[:, :, ::2]
    np.testing.assert_array_equal(result, windows.max(axis=3))
