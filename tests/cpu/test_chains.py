"""Two units in one kernel: the same bits as apart, however tiles are cut, on memory of a tile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tvm import relax

from runtime_ext.ir_form import CHAIN
from runtime_ext.units import plans
from runtime_ext.units.chains import chained
from tests.fast_run import examples, one_in
from tests.kernels.kernel_harness import (
    check,
    compiler,
    make_unit,
    random_tensors,
    run_unit,
    scaled,
    shape_of,
    sliced,
)
from tvm_ios.program.compiled_unit import CompiledUnit

op = relax.op


def window(
    emit: Any, x: Any, weight: Any, bias: Any, strides: int, padding: int, dilation: int
) -> Any:
    channels = shape_of(weight.ty)[0]
    z = op.nn.conv2d(
        x, weight, strides=strides, padding=padding, dilation=dilation, groups=channels
    )
    return emit(op.clip(emit(op.add(emit(z), bias)), 0.0, 6.0))


def product(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    return emit(op.nn.relu(emit(op.add(emit(op.nn.conv2d(x, weight)), bias))))


def chain(
    image: tuple[int, int, int, int],
    channels: int,
    kernel: int = 3,
    strides: int = 1,
    padding: int = 1,
    dilation: int = 1,
    *,
    product_first: bool = False,
) -> Any:
    """A depthwise convolution and a product of its result, or the other way round."""
    before = image[1]
    between = channels if product_first else before

    def body(emit: Any, x: Any, w: Any, wb: Any, p: Any, pb: Any) -> Any:
        def reduced(value: Any) -> Any:
            return window(emit, value, w, wb, strides, padding, dilation)

        if product_first:
            return op.negative(reduced(product(emit, x, p, pb)))
        return op.negative(product(emit, reduced(x), p, pb))

    constants = [
        (between, 1, kernel, kernel),
        (1, between, 1, 1),
        (channels, before, 1, 1),
        (1, channels, 1, 1),
    ]
    return make_unit([image], constants, body).with_attr(CHAIN, 1)


def outputs(
    folder: Path, function: Any, monkeypatch: pytest.MonkeyPatch, rows: int | None
) -> tuple[CompiledUnit, bytes]:
    """The unit with tiles of so many rows, or as two kernels for None, and what it computes."""
    monkeypatch.setattr(
        plans, "chained", lambda plan: None if rows is None else chained(plan, rows)
    )
    # A compiler plans equal units once.
    kernels = compiler.__wrapped__(str(folder))
    unit = kernels.compile({"unit": plans.UnitSource(function, ("NHWC", "NHWC"))})["unit"]
    arguments = random_tensors([shape_of(p.ty) for p in function.params])
    arguments[1:] = [scaled(a) for a in arguments[1:]]
    shapes = [shape_of(function.ret_ty)]
    (result,) = run_unit(
        kernels, unit, ("NHWC", "NHWC"), arguments[:1], arguments[1:], shapes=shapes
    )
    return unit, result.tobytes()


CASES = {
    "depthwise, product": chain((1, 20, 13, 11), 24),
    "few channels": chain((1, 5, 13, 11), 24),
    "by rows": chain((1, 64, 40, 40), 24),
    "several chunks": chain((1, 117, 40, 40), 24),
    "strides": chain((2, 18, 14, 15), 40, strides=2),
    "5x5": chain((1, 16, 9, 9), 33, kernel=5, padding=2),
    "no padding": chain((1, 16, 9, 10), 8, padding=0),
    "dilated": chain((1, 16, 9, 10), 8, padding=2, dilation=2),
    "product, depthwise": chain((1, 12, 13, 11), 40, product_first=True),
    "product by rows": chain((1, 3, 120, 121), 20, product_first=True),
    "product, strides": chain((2, 12, 14, 15), 25, strides=2, product_first=True),
    "product, 5x5": chain((1, 12, 9, 9), 33, kernel=5, padding=2, product_first=True),
    "product, no padding": chain((1, 12, 9, 10), 16, padding=0, product_first=True),
    "product, dilated": chain((1, 8, 9, 10), 16, padding=2, dilation=2, product_first=True),
}


@pytest.mark.parametrize("name", one_in(2, CASES))
def test_a_chain_is_one_kernel_without_scratch(name: str, kernels_folder: Path) -> None:
    unit = check(str(kernels_folder), CASES[name], ("NHWC", "NHWC"))
    assert unit.forms == ("chain",)
    assert len(unit.code.calls) == 1
    assert not unit.code.scratch


@pytest.mark.parametrize("name", ["depthwise, product", "product, strides"])
@pytest.mark.parametrize("target", ["sse", "avx2"])
def test_chains_for_narrower_vectors(name: str, target: str, kernels_folder: Path) -> None:
    unit = check(str(kernels_folder), CASES[name], ("NHWC", "NHWC"), target=target)
    assert unit.forms == ("chain",)


@pytest.mark.parametrize("name", ["depthwise, product", "product, depthwise"])
def test_a_result_may_lie_in_another_tensor(name: str, kernels_folder: Path) -> None:
    function = CASES[name]
    unit = check(str(kernels_folder), function, ("NHWC", *sliced(function, ("NHWC",) * 2)[1:]))
    assert unit.forms == ("chain",)


@pytest.mark.parametrize("product_first", [False, True])
def test_what_others_read_is_no_chain(product_first: bool, kernels_folder: Path) -> None:
    """The second kernel also adds what it reads: that has to be in memory."""

    def body(emit: Any, x: Any, w: Any, wb: Any, p: Any, pb: Any) -> Any:
        if product_first:
            between = product(emit, x, p, pb)
            return op.add(window(emit, between, w, wb, 1, 1, 1), between)
        between = window(emit, x, w, wb, 1, 1, 1)
        return op.add(product(emit, between, p, pb), between)

    constants = [(16, 1, 3, 3), (1, 16, 1, 1), (16, 16, 1, 1), (1, 16, 1, 1)]
    function = make_unit([(1, 16, 9, 8)], constants, body).with_attr(CHAIN, 1)
    unit = check(str(kernels_folder), function, ("NHWC", "NHWC"))
    assert unit.forms in (("pooling", "contraction"), ("contraction", "pooling"))


@examples(12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_bits_are_those_of_two_kernels(data: st.DataObject, kernels_folder: Path) -> None:
    kernel, dilation = data.draw(st.sampled_from([1, 3, 5])), data.draw(st.integers(1, 2))
    reach = (kernel - 1) * dilation
    padding = data.draw(st.integers(0, reach))
    # Columns of a single pixel are no row of pixels to a product, and so no chain.
    least = max(1, reach + 1 - 2 * padding)
    height, width = data.draw(st.integers(least, 14)), data.draw(st.integers(least + 2, 14))
    function = chain(
        (data.draw(st.integers(1, 2)), data.draw(st.integers(2, 20)), height, width),
        data.draw(st.integers(2, 40)),
        kernel,
        data.draw(st.integers(1, 2)),
        padding,
        dilation,
        product_first=data.draw(st.booleans()),
    )
    rows = data.draw(st.integers(1, shape_of(function.ret_ty)[2]))
    with pytest.MonkeyPatch.context() as patch:
        unit, joined = outputs(kernels_folder, function, patch, rows)
        apart, expected = outputs(kernels_folder, function, patch, None)
    assert unit.forms == ("chain",)
    assert len(apart.forms) == 2
    assert joined == expected


def test_kernels_of_chains_need_no_runtime(kernels_folder: Path, tmp_path: Path) -> None:
    """A tile's memory is on the stack: a kernel without TVM has no workspace to ask for."""
    kernels = compiler(str(kernels_folder))
    function = CASES["by rows"]
    unit = kernels.compile({"unit": plans.UnitSource(function, ("NHWC", "NHWC"))})["unit"]
    kernels.export(tmp_path / "kernels.so", [call.symbol for call in unit.code.calls])
    assert b"TVMBackendAllocWorkspace" not in (tmp_path / "kernels.so").read_bytes()


def test_functions_without_the_mark_are_as_they_were(kernels_folder: Path) -> None:
    function = CASES["depthwise, product"].without_attr(CHAIN)
    kernels = compiler(str(kernels_folder))
    source = plans.UnitSource(function, ("NHWC", "NHWC"))
    assert kernels.chain_kernels(source) == 0
    marked = replace(source, function=function.with_attr(CHAIN, 1))
    assert kernels.chain_kernels(marked) == 1
    assert kernels.compile({"unit": source})["unit"].forms == ("pooling", "contraction")
