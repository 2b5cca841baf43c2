"""Kernels that read and write slices of wider tensors touch nothing around them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tvm import relax

from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.x86 import AVX512
from runtime_ext.kernels.cut import Blocking
from runtime_ext.kernels.relax_function import tensor_types
from runtime_ext.kernels.spec import Contraction
from runtime_ext.tuning_log.folder import workload_name
from runtime_ext.tuning_log.workload import contraction_workload
from runtime_ext.units.plans import plan_unit, tuned_plans
from runtime_ext.units.unit import UnitSource
from runtime_ext.units.values import SliceLayout
from tests.kernels.kernel_harness import check, make_unit, sliced
from tests.units.unit_images import CASES, OTHERS

op = relax.op
SPACE = VectorSpace(AVX512)

IMAGES = ("max 3x3/2", "average", "exit", "merged", "whole and part", "separable", "cropped")
IMAGES += ("padded output", "lrn", "mean", "sum and activation", "split", "slices", "gated")
MATRICES = ("pooled logits", "flattened", "softmax", "batched product", "layer norm")


@pytest.mark.parametrize("axis", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", IMAGES)
def test_images(name: str, axis: int, kernels_folder: Path) -> None:
    function, tensors, _ = CASES[name]
    check(str(kernels_folder), function, sliced(function, ("NHWC",) * tensors, axis))


@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name: str, kernels_folder: Path) -> None:
    function, image, output = OTHERS[name]
    others = int(function.attrs["num_input"]) - 1
    first = "NHWC" if image else ""
    check(str(kernels_folder), function, sliced(function, (first, *[""] * others, output)))


def convolution(channels: int, groups: int = 1) -> Any:
    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        y = emit(op.add(emit(op.nn.conv2d(x, w, padding=1, groups=groups)), b))
        return op.nn.relu(y)

    weights = [(channels, 24 // groups, 3, 3), (1, channels, 1, 1)]
    return make_unit([(2, 24, 9, 10)], weights, body)


@pytest.mark.parametrize(("channels", "groups"), [(70, 1), (16, 1), (36, 4)])
def test_convolutions(channels: int, groups: int, kernels_folder: Path) -> None:
    function = convolution(channels, groups)
    check(str(kernels_folder), function, sliced(function, ("NHWC", "NHWC")))


def test_an_output_twice_in_two_layouts(kernels_folder: Path) -> None:
    def body(emit: Any, x: Any) -> Any:
        y = emit(op.nn.relu(x))
        return relax.Tuple([y, y, x])

    function = make_unit([(1, 5, 4, 4)], [], body)
    layouts = ("NHWC", "", SliceLayout("NHWC", 1, 2, 11), SliceLayout("NHWC", 1, 0, 7))
    check(str(kernels_folder), function, layouts)


class _Known:
    """A tuning log that has every contraction, and notes their names."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def blocking(self, spec: Contraction, space: VectorSpace) -> tuple[str, Blocking]:
        self.names.append(workload_name(contraction_workload(spec)))
        return self.names[-1], Blocking(7, 2)

    def find(self, function: Any) -> None:
        return None


@pytest.mark.parametrize(
    "function",
    [convolution(70), convolution(36, 4), CASES["merged"][0], CASES["separable"][0]],
    ids=["plain", "grouped", "merged", "separable"],
)
def test_a_tuning_log_knows_the_same_contraction(function: Any) -> None:
    count = int(function.attrs["num_input"]) + len(tensor_types(function.ret_ty))
    source = UnitSource(function, sliced(function, ("NHWC",) * count))
    inside, alone = _Known(), _Known()
    (plan,) = tuned_plans(source, SPACE, inside).values()
    tuned_plans(source.alone, SPACE, alone)
    assert inside.names == alone.names
    assert inside.names
    specs = [k.spec for k in plan.kernels if isinstance(k.spec, Contraction)]
    assert {spec.blocking for spec in specs} == {Blocking(7, 2)}
    plain = [k.spec for k in plan_unit(source.alone, SPACE).kernels]
    names = [workload_name(contraction_workload(s)) for s in plain if isinstance(s, Contraction)]
    assert names == inside.names
