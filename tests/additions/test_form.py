"""A form is a folder with its plan, spec, writer and estimate, and a place in the list of forms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

from runtime_ext.cpu.forms import registry
from runtime_ext.units.unit import UnitSource
from tests.additions.backward_sums import BACKWARDS, NAME
from tests.kernels.kernel_harness import (
    compiler,
    make_unit,
    random_tensors,
    reference,
    run_unit,
    shape_of,
)

LAYOUTS = ("NHWC", "NHWC")


def conv(channels: int) -> UnitSource:
    """A convolution before a relu."""
    function = make_unit(
        [(2, channels, 9, 7)],
        [(24, channels, 3, 3)],
        lambda emit, x, w: relax.op.nn.relu(emit(relax.op.nn.conv2d(x, w, padding=1))),
    )
    return UnitSource(function, LAYOUTS)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "FORMS", [*registry.FORMS, BACKWARDS])


@pytest.mark.usefixtures("added")
def test_any_partition_of_the_tiles_gives_the_same_bits(kernels_folder: Path) -> None:
    kernels, source = compiler(str(kernels_folder)), conv(16)
    unit = kernels.compile_rkernels({"u": source}, only={"u": NAME})["u"][NAME]
    assert unit.name == NAME
    assert unit.forms == ("backwardcontraction",)
    image, weight = random_tensors([shape_of(p.ty) for p in source.function.params])
    (want,) = reference(source.function, [image, weight])

    def run(cuts: Callable[[int], list[int]]) -> np.ndarray:
        (result,) = run_unit(kernels, unit, LAYOUTS, [image], [weight], cuts, [want.shape])
        return result

    whole = run(lambda tiles: [0, tiles])
    np.testing.assert_allclose(whole, want, rtol=1e-5, atol=1e-4)
    parts = run(lambda tiles: [0, tiles // 3, tiles // 2, tiles])
    assert parts.tobytes() == whole.tobytes()


@pytest.mark.usefixtures("added")
def test_a_form_that_does_not_fit_has_no_plan(kernels_folder: Path) -> None:
    assert NAME not in compiler(str(kernels_folder)).rkernels(conv(3))
