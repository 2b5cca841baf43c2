"""Convolutions and products of all shapes against what TVM computes unscheduled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.cpu.kernel_build import build_kernel
from runtime_ext.cpu.kernels.contraction import contraction
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.unit import UnitSource
from tests.fast_run import crossed, examples
from tests.kernels.kernel_harness import AVX512, check, make_unit
from tests.units.unit_convolutions import CASES, TRANSPOSED, convolution, op, shapes, transposed


@pytest.mark.parametrize(("name", "layout"), crossed(CASES, ["NHWC", ""]))
def test_convolution(name: str, layout: str, kernels_folder: Path) -> None:
    function, tensors = CASES[name]
    unit = check(str(kernels_folder), function, (layout,) * tensors)
    assert len(unit.code.calls) <= 2


@pytest.mark.parametrize(("name", "layout"), crossed(TRANSPOSED, ["NHWC", ""]))
def test_transposed_convolution(name: str, layout: str, kernels_folder: Path) -> None:
    unit = check(str(kernels_folder), TRANSPOSED[name], (layout,) * 4)
    assert len(unit.code.calls) == 1


def test_a_transposed_convolution_of_a_ragged_result(kernels_folder: Path) -> None:
    function = transposed((1, 8, 5, 6), (8, 6, 3, 3), (2, 2))
    check(str(kernels_folder), function, ("NHWC",) * 4)


@pytest.mark.parametrize("name", ["1x1 odd", "3x3", "residual", "7x7", "depthwise", "grouped"])
@pytest.mark.parametrize("target", ["sse", "avx2"])
def test_convolution_for_narrower_vectors(name: str, target: str, kernels_folder: Path) -> None:
    function, tensors = CASES[name]
    check(str(kernels_folder), function, ("NHWC",) * tensors, target=target)


def test_input_and_output_may_differ_in_layout(kernels_folder: Path) -> None:
    function, _ = CASES["first layer"]
    check(str(kernels_folder), function, ("", "NHWC"))
    check(str(kernels_folder), function, ("NHWC", ""))


@examples(12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=shapes(), layout=st.sampled_from(["NHWC", ""]), seed=st.integers(0, 9))
def test_random_convolution(
    case: dict[str, Any], layout: str, seed: int, kernels_folder: Path
) -> None:
    check(str(kernels_folder), convolution(**case), (layout, layout), seed=seed)


@pytest.mark.parametrize("operator", [op.nn.relu, lambda x: op.clip(x, 0.0, 6.0)])
def test_what_is_activated_on_the_way_has_no_branches(operator: Any, tmp_path: Path) -> None:
    """Where all lanes of a vector compare the same, LLVM may jump instead, element by element."""

    def body(emit: Any, x: Any, w: Any) -> Any:
        return op.nn.conv2d(emit(operator(x)), w)

    function = make_unit([(1, 32, 7, 9)], [(24, 32, 1, 1)], body)
    check(str(tmp_path), function, ("NHWC", "NHWC"))
    kernels = KernelCompiler(AVX512, 2, tmp_path)
    unit = kernels.compile({"u": UnitSource(function, ("NHWC", "NHWC"))})["u"]
    (call,) = unit.code.calls
    spec = kernels.workload(call.symbol)
    assert isinstance(spec, Contraction)
    assert spec.prologue != ACC
    _, module = build_kernel(spec, "k", kernels.target, kernels.space.isa)
    assert "ucomiss" not in module.inspect_source("asm")


@pytest.mark.parametrize(
    ("rows", "depth", "columns"), [(1, 64, 1000), (1, 2048, 77), (9, 64, 50), (1, 3, 5)]
)
def test_product(rows: int, depth: int, columns: int, kernels_folder: Path) -> None:
    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        return op.nn.relu(emit(op.add(emit(op.matmul(x, w)), b)))

    function = make_unit([(rows, depth)], [(depth, columns), (columns,)], body)
    unit = check(str(kernels_folder), function, ("", ""))
    assert len(unit.code.calls) == 1


@pytest.mark.parametrize(
    ("channels", "outputs", "width", "step"),
    [
        # 24 accumulators, and 28: four channels a step.
        (64, 64, 54, 4),
        (48, 32, 28, 4),
        # Two channels of 28 accumulators would take more registers than there are.
        (50, 32, 28, 1),
        # Nine divide 54, but more than eight are no faster.
        (54, 16, 7, 6),
    ],
)
def test_channels_of_a_loop_step(
    channels: int, outputs: int, width: int, step: int, tmp_path: Path
) -> None:
    kernels = KernelCompiler(AVX512, 2, tmp_path)
    function = convolution((1, channels, width, width), (outputs, channels, 1, 1))
    unit = kernels.compile({"u": UnitSource(function, ("NHWC", "NHWC"))})["u"]
    spec = kernels.workload(unit.code.calls[0].symbol)
    assert isinstance(spec, Contraction)
    code, _ = contraction(spec, kernels.space.isa)
    assert f"in range({channels // step})" in code.script()
