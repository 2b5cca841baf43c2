"""Contractions of integers for images of any size, each compiled once: the exact sums."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm

from runtime_ext.cpu.forms.integers.plan import by_integers
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.isa import BYTES, Isa, Products
from runtime_ext.isa.levels import isa_of
from runtime_ext.kernels.spec import Encoding, extents
from runtime_ext.machine import this_machine
from runtime_ext.units.integers import Bounds
from runtime_ext.units.placed import Placed
from runtime_ext.units.values import Storage
from tests.kernels.emulated_instructions import multiply_fours
from tests.kernels.kernel_harness import AVX2, LEVEL
from tests.kernels.open_kernels import TARGETS, OpenKernel, nothing, rng
from tests.kernels.test_open_images import RELU, WINDOWS, B, Filter, H, W, convolution, convolved
from tvm_ios.program.bfloat16 import FORM
from tvm_ios.program.program import Role
from tvm_ios.shapes.extent import at_values, evaluate, unequal_if_undecided

WEIGHTS: Bounds = (-127.0, 127.0)
SIGNED: Bounds = (-128.0, 127.0)
DENSE = Filter((1, 1), pads=(0, 0, 0, 0))


def _instructions() -> dict[str, tuple[Mapping[str, Any], Isa, str]]:
    """Return by name a target, its instructions, and the type of what they multiply."""
    found: dict[str, tuple[Mapping[str, Any], Isa, str]] = {}
    for name, target in TARGETS.items():
        isa = isa_of(tvm.target.Target(dict(target)))
        found |= {f"{kind} {name}": (target, isa, kind) for kind in isa.products if kind != FORM}
    if LEVEL in os.environ:
        return found
    products = {**isa_of(tvm.target.Target(AVX2)).products, BYTES: Products(multiply_fours(8), 4)}
    found["int8 emulated"] = (AVX2, Isa(8, 16, products=products), BYTES)
    host = this_machine.host_target(2, forms=[BYTES])
    if BYTES in isa_of(host).products:
        found["int8 host"] = (host.export(), isa_of(host), BYTES)
    return found


INSTRUCTIONS = _instructions()
by_instructions = pytest.mark.parametrize("name", INSTRUCTIONS)


@cache
def _kernel(spec: Any, name: str) -> OpenKernel:
    target, isa, _ = INSTRUCTIONS[name]
    return OpenKernel(spec, target, isa)


def check(
    name: str,
    filter: Filter,
    symbolic: tuple[int, int, int],
    shapes: Sequence[Mapping[str, int]],
    channels: int = 5,
    out: int = 9,
    groups: int = 1,
    data: Bounds = SIGNED,
    is_stored_in_bytes: bool = False,
    **options: Any,
) -> None:
    _, isa, kind = INSTRUCTIONS[name]
    spec, _ = convolution(filter, symbolic, channels, out, groups, **options)
    image, _, bias, result = map(extents, spec.buffers)
    weights = (out, channels // groups, *filter.kernel)
    encoding = Encoding("uint8", int(-data[0])) if is_stored_in_bytes else None
    storages = [
        Storage(Role.INPUT, 0, image, *(("uint8",) if encoding else ()), encoding=encoding),
        Storage(Role.CONSTANT, 1, weights),
        Storage(Role.CONSTANT, 2, bias),
        Storage(Role.OUTPUT, 0, result),
    ]
    # Parts of other groups are added when it is cut.
    whole = Placed(replace(spec, parts=spec.parts[:1]), (0, 1, 2, 3), storages)
    with unequal_if_undecided():
        placed = by_integers(whole, (data, WEIGHTS, None), VectorSpace(isa), kind)
    assert placed is not None
    assert len(placed) == (1 if is_stored_in_bytes else 2)
    weight = rng.integers(-127, 128, weights).astype(np.float32)
    added = rng.integers(-9, 9, out).astype(np.float32)
    constants = {1: weight, 2: added}
    for values in shapes:
        batch, height, width = (evaluate(extent, values) for extent in symbolic)
        if min(filter.window(height, width).output) < 1:
            continue
        x = rng.integers(int(data[0]), int(data[1]) + 1, (batch, height, width, channels))
        read = np.maximum(x, 0) if options.get("prologue") == RELU else x
        want = convolved(filter, read, weight, added, groups)
        arrays: dict[int, Any] = {0: x.astype(np.float32), 3: nothing(*want.shape)}
        if encoding:
            arrays[0] = (x + encoding.shift).astype(np.uint8)
        for place, storage in enumerate(storages):
            if storage.role is Role.CONSTANT:
                arrays[place] = storage.transform.apply(constants[storage.number])
            elif storage.role is Role.SCRATCH:
                arrays[place] = np.full(at_values(storage.shape, values), 77, storage.dtype)
        for kernel in placed:
            compiled = _kernel(kernel.spec, name)
            given = [arrays[place] for place in kernel.places]
            borders = rng.integers(0, compiled.tiles(values) + 1, 3).tolist()
            whole, parts = compiled.run(values, given), compiled.run(values, given, borders)
            assert all(a.tobytes() == b.tobytes() for a, b in zip(whole, parts, strict=True))
            arrays |= dict(zip(kernel.places, whole, strict=True))
        assert np.array_equal(arrays[3], want), values


#: Rows of every remainder of register tiles, primes, and many.
ROWS = [{"width": width} for width in (*range(1, 40), 97, 211)]
SIZES = [
    {"batch": 1 + width % 2, "height": 1 + width % 5, "width": width}
    for width in (*range(1, 20), 41)
]


@by_instructions
@pytest.mark.parametrize(("channels", "out"), [(64, 40), (33, 20), (6, 130)])
def test_dense_layers_of_any_rows(channels: int, out: int, name: str) -> None:
    check(name, DENSE, (1, 1, W), ROWS, channels, out)


@by_instructions
def test_the_pixels_of_all_images_are_rows(name: str) -> None:
    check(name, DENSE, (B, H, W), SIZES, 24, 40)
    check(name, DENSE, (B, 5, 3), [{"batch": batch} for batch in range(1, 9)], 7, 17)


@pytest.mark.parametrize(
    ("window", "name"),
    [
        (window, name)
        for window in WINDOWS
        for name in INSTRUCTIONS
        if window in ("3x3", "3x3 stride 2", "1x1 stride 2", "4x4 wide pads") or "avx2" in name
    ],
)
def test_convolutions_of_images_of_any_size(window: str, name: str) -> None:
    check(name, WINDOWS[window], (B, H, W), SIZES)


@by_instructions
def test_images_of_known_width_and_groups(name: str) -> None:
    check(name, Filter(), (B, H, 11), SIZES[:6], 16, 24)
    check(name, Filter(strides=(2, 2)), (1, H, W), SIZES[::4], 16, 24, groups=2)


@by_instructions
def test_what_is_read_is_activated_first(name: str) -> None:
    check(name, Filter(), (1, H, W), SIZES[::4], 8, 12, prologue=RELU)


@pytest.mark.parametrize("name", [name for name in INSTRUCTIONS if BYTES in name])
@pytest.mark.parametrize("data", [(0.0, 255.0), (-250.0, 5.0)])
def test_bytes_are_read_where_they_lie(name: str, data: Bounds) -> None:
    options: dict[str, Any] = {"data": data, "is_stored_in_bytes": True}
    check(name, DENSE, (1, 1, W), ROWS[::3], 64, 40, **options)
    check(name, Filter(pads=(0, 0, 0, 0)), (B, H, W), SIZES[::3], 8, 12, **options)


def test_channels_that_depend_on_the_shape_have_no_such_form() -> None:
    spec, _ = convolution(Filter(), (1, 8, 8))
    storages = [
        Storage(Role.INPUT, 0, (1, 8, 8, 3)),
        Storage(Role.CONSTANT, 1, (5, 3, 3, 3)),
        Storage(Role.CONSTANT, 2, (5,)),
        Storage(Role.OUTPUT, 0, (1, 8, 8, 5)),
    ]
    space = VectorSpace(isa_of(tvm.target.Target(AVX2)))
    for channels, is_fitting in ((3, True), (W, False)):
        whole = Placed(replace(spec, channels=channels), (0, 1, 2, 3), [*storages])
        found = by_integers(whole, (SIGNED, WEIGHTS, None), space, "int16")
        assert (found is not None) == is_fitting
