"""Coarse and fine tilings: other numbers of tiles, the same results, partitions bit by bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.cpu.kernels.contraction import plan_tiles
from runtime_ext.cpu.tilings import coarse, fine, other_plans
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.x86 import AVX, AVX512
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.plans import plan_unit
from runtime_ext.units.unit import UnitSource
from tests.fast_run import one_in
from tests.kernels.kernel_harness import (
    Array,
    compiler,
    make_unit,
    random_tensors,
    reference,
    run_unit,
    scaled,
    shape_of,
)
from tvm_ios.program.compiled_unit import CompiledUnit

op = relax.op


def convolution(data: tuple[int, ...], weight: tuple[int, ...], **attributes: Any) -> Any:
    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        return op.nn.relu(emit(op.add(emit(op.nn.conv2d(x, w, **attributes)), b)))

    return make_unit([data], [weight, (1, weight[0], 1, 1)], body)


def separable() -> Any:
    def body(emit: Any, x: Any, w: Any, v: Any) -> Any:
        y = emit(op.nn.conv2d(x, w, padding=1))
        return op.nn.relu(emit(op.nn.conv2d(y, v)))

    return make_unit([(1, 16, 9, 11)], [(32, 16, 3, 3), (64, 32, 1, 1)], body)


def depthwise() -> Any:
    def body(emit: Any, x: Any, w: Any, v: Any) -> Any:
        y = emit(op.nn.conv2d(x, w, padding=1, groups=72))
        return op.nn.conv2d(emit(op.nn.relu(y)), v)

    return make_unit([(1, 72, 9, 11)], [(72, 1, 3, 3), (24, 72, 1, 1)], body)


def gate() -> Any:
    def body(emit: Any, x: Any, y: Any) -> Any:
        return op.concat([emit(op.multiply(x, emit(op.sigmoid(x)))), y], axis=1)

    return make_unit([(1, 40, 9, 13), (1, 7, 9, 13)], [], body)


def pool(kind: Any, **attributes: Any) -> Any:
    return make_unit([(1, 41, 9, 13)], [], lambda _, x: kind(x, (3, 3), **attributes))


#: Functions of images, and how many forms they have on a machine with AVX-512.
UNITS: dict[str, tuple[Any, int]] = {
    "padded": (convolution((1, 24, 13, 31), (96, 24, 3, 3), padding=1), 3),
    "one block": (convolution((1, 8, 11, 17), (12, 8, 3, 3), padding=1), 2),
    "wide border": (convolution((1, 5, 9, 40), (16, 5, 1, 7), padding=(0, 3)), 2),
    "strided": (convolution((1, 3, 21, 33), (32, 3, 5, 5), strides=2, padding=2), 2),
    "one row": (convolution((1, 24, 19, 17), (56, 24, 1, 1)), 3),
    "batch": (convolution((2, 8, 7, 9), (40, 8, 3, 3), padding=1), 2),
    "groups": (convolution((1, 16, 8, 9), (64, 8, 3, 3), groups=2, padding=1), 2),
    "matrix-vector": (convolution((1, 96, 1, 1), (1000, 96, 1, 1)), 2),
    "two contractions": (separable(), 3),
    "depthwise": (depthwise(), 2),
    "largest": (pool(op.nn.max_pool2d, strides=2, padding=1), 2),
    "average": (pool(op.nn.avg_pool2d, padding=1), 2),
    "sigmoid": (make_unit([(1, 41, 9, 13)], [], lambda _, x: op.sigmoid(x)), 2),
    "gate": (gate(), 2),
}


def layouts_of(function: Any) -> tuple[str, ...]:
    """All images have their channels innermost."""
    return ("NHWC",) * (int(function.attrs["num_input"]) + 1)


def run(
    folder: str, unit: CompiledUnit, function: Any, pieces: int = 1
) -> tuple[list[Array], Array]:
    """The arguments, and what a form of a unit makes of them in so many pieces a phase."""
    count = int(function.attrs["num_input"])
    arguments = random_tensors([shape_of(p.ty) for p in function.params])
    arguments[count:] = [scaled(a) for a in arguments[count:]]

    def cuts(tiles: int) -> list[int]:
        return [tiles * i // pieces for i in range(pieces + 1)]

    inputs, constants = arguments[:count], arguments[count:]
    (output,) = run_unit(compiler(folder), unit, layouts_of(function), inputs, constants, cuts)
    return arguments, output


@pytest.mark.parametrize("name", one_in(2, UNITS))
def test_every_form_computes_the_same(name: str, kernels_folder: Path) -> None:
    function, _ = UNITS[name]
    folder = str(kernels_folder)
    source = UnitSource(function, layouts_of(function))
    kernels = compiler(folder)
    forms = kernels.compile_rkernels({"unit": source})["unit"]
    named = {n for n in kernels.rkernels(source) if n.startswith(("winograd-", "bfloat16"))}
    assert set(forms) == set(kernels.rkernels(source)) - named
    assert next(iter(forms)) == "default"
    assert forms["default"] == kernels.compile({"unit": source})["unit"]
    assert {"default"} < set(forms) <= {"default", "coarse", "fine"}
    assert len({form.key for form in forms.values()}) == len(forms)
    arguments, default = run(folder, forms["default"], function)
    (want,) = reference(function, arguments)
    assert np.abs(default - want).max() <= 2e-5 * np.abs(want).max()
    for form in forms.values():
        # Whatever the register tile, each element is summed in the same order.
        for pieces in (1, 2, 7):
            _, parts = run(folder, form, function, pieces)
            assert parts.tobytes() == default.tobytes()
    tasks = {name: sum(call.tiles for call in form.code.calls) for name, form in forms.items()}
    assert tasks.get("coarse", 0) < tasks["default"] < tasks.get("fine", 10**9)


def test_names_are_those_of_another_process(kernels_folder: Path) -> None:
    """Names and keys come from the unit alone."""
    sources = {
        name: UnitSource(function, layouts_of(function)) for name, (function, _) in UNITS.items()
    }
    first = compiler(str(kernels_folder))
    other = KernelCompiler(first.target, 2, first._cache.folder)
    compiled = first.compile_rkernels(sources)
    assert other.compile_rkernels(sources) == compiled
    assert other.compiled == 0


def test_a_small_unit_has_the_default_only(kernels_folder: Path) -> None:
    function = make_unit([(1, 4, 5, 6)], [], lambda emit, x: op.nn.relu(x))
    source = UnitSource(function, layouts_of(function))
    assert compiler(str(kernels_folder)).rkernels(source) == ("default",)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("name", ["padded", "one block", "strided", "one row", "groups"])
def test_tiles_are_fewer_and_more(name: str, lanes: int) -> None:
    """On every vector unit; strips of rows with borders cover each row once."""
    unit = AVX512 if lanes == 16 else AVX
    function, _ = UNITS[name]
    (kernel, *_) = plan_unit(UnitSource(function, layouts_of(function)), VectorSpace(unit)).kernels
    spec = kernel.spec
    assert isinstance(spec, Contraction)
    tiles = plan_tiles(spec, unit).tiles
    for tiling in (coarse, fine):
        blocking = tiling(spec, unit)
        if blocking is None:
            continue
        plan = plan_tiles(replace(spec, blocking=blocking), unit)
        assert plan.tiles > tiles if tiling is fine else plan.tiles < tiles
        assert plan.strip * (plan.strips - 1) < sum(run.tiles for run in plan.runs)
    assert fine(spec, unit) is not None


@pytest.mark.parametrize("name", UNITS)
def test_how_many_forms_there_are(name: str) -> None:
    function, forms = UNITS[name]
    source = UnitSource(function, layouts_of(function))
    space = VectorSpace(AVX512)
    plans = [plan_unit(source, space), *other_plans(source, space).values()]
    assert len(set(map(repr, plans))) == forms
