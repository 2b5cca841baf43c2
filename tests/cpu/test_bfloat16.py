"""Contractions with weights in bfloat16: sums of rounded weights, in any partition the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tvm import relax

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.cpu.forms.bfloat16.spec import Bfloat16Contraction
from runtime_ext.cpu.forms.packs.spec import MatrixContraction
from runtime_ext.cpu.kernel_build import build_kernel
from runtime_ext.isa.levels import isa_of
from runtime_ext.isa.x86 import V4
from runtime_ext.units.unit import UnitSource
from tests.fast_run import examples
from tests.kernels.kernel_harness import (
    AVX2,
    AVX512,
    MULTIPLYING,
    compiler,
    compiler_with,
    make_unit,
    multiplies_matrices,
    random_tensors,
    run_unit,
    scaled,
    shape_of,
    sliced,
)
from tvm_ios.files.array_files import Array

op = relax.op
FORM = "bfloat16"
NHWC = ("NHWC", "NHWC")
AVX512_BF16 = {**AVX512, "mattr": ["+avx512bf16"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("kernels"))


def rounded(array: Array) -> Array:
    return array.astype(ml_dtypes.bfloat16).astype(np.float32)


def conv(
    data: tuple[int, ...],
    out: int,
    kernel: int = 3,
    pad: int = 0,
    groups: int = 1,
    stride: int = 1,
    dilation: int = 1,
) -> Any:
    """A convolution with a bias, and the ``want`` of it in float64."""

    def body(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
        total = op.nn.conv2d(
            x, weight, strides=stride, padding=pad, groups=groups, dilation=dilation
        )
        return op.nn.relu(emit(op.add(emit(total), bias)))

    weights = (out, data[1] // groups, kernel, kernel)

    def want(x: Array, weight: Array, bias: Array) -> Array:
        x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        height, width = ((e - dilation * (kernel - 1) - 1) // stride + 1 for e in x.shape[2:])
        result = np.zeros((data[0], out, height, width)) + bias
        parts = zip(np.split(x, groups, 1), np.split(weight, groups), strict=True)
        for group, (inputs, filters) in enumerate(parts):
            count = out // groups
            for ky in range(kernel):
                for kx in range(kernel):
                    rows = slice(ky * dilation, ky * dilation + height * stride, stride)
                    columns = slice(kx * dilation, kx * dilation + width * stride, stride)
                    taken = inputs[:, :, rows, columns][:, :, :height, :width]
                    result[:, group * count : (group + 1) * count] += np.einsum(
                        "nihw,oi->nohw", taken, filters[:, :, ky, kx]
                    )
        return np.maximum(result, 0)

    return make_unit([data], [weights, (1, out, 1, 1)], body), want


def dense(rows: int, depth: int, columns: int, batch: tuple[int, ...] = ()) -> Any:
    def body(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
        return op.add(emit(op.matmul(x, weight)), bias)

    function = make_unit([(*batch, rows, depth)], [(depth, columns), (columns,)], body)
    return function, lambda x, weight, bias: x @ weight + bias


def check(
    kernels: KernelCompiler,
    case: Any,
    layouts: Sequence[Any] = NHWC,
    seed: int = 0,
) -> None:
    """The form has the sums of rounded weights in float64, and in random partitions its bits."""
    function, want = case
    source = UnitSource(function, tuple(layouts))
    arguments = random_tensors([shape_of(p.ty) for p in function.params], seed)
    arguments[1] = scaled(arguments[1])
    unit = kernels.compile_rkernels({"u": source}, only={"u": FORM})["u"][FORM]
    assert unit.name == FORM
    data_too = _multiplies(kernels, *arguments[:2])
    before = ("narrowing",) if data_too else ()
    in_matrices = data_too and multiplies_matrices(kernels, FORM, *arguments[:2])
    contraction = "matrixcontraction" if in_matrices else "bfloat16contraction"
    assert unit.forms == (*before, contraction)
    data, weight, *others = (a.astype(np.float64) for a in arguments)
    rounded_weight = rounded(arguments[1]).astype(np.float64)
    exact = want(data, weight, *others)
    near = want(rounded(arguments[0]) if data_too else data, rounded_weight, *others)
    rng = np.random.default_rng(seed)

    def cuts(tiles: int) -> list[int]:
        return [0, *sorted(rng.integers(0, tiles + 1, 3).tolist()), tiles]

    inputs, constants, shapes = arguments[:1], arguments[1:], [near.shape]
    (got,) = run_unit(kernels, unit, layouts, inputs, constants, shapes=shapes)
    (part,) = run_unit(kernels, unit, layouts, inputs, constants, cuts, shapes)
    # Errors are of the terms, which may cancel.
    terms = float(want(*map(np.abs, (data, weight, *others))).max()) or 1.0
    assert float(np.abs(got - near).max()) / terms <= 5e-7
    assert float(np.abs(got - exact).max()) / terms <= 2**-8 + 5e-7, "half a step of both factors"
    assert got.tobytes() == part.tobytes()


def _multiplies(kernels: KernelCompiler, data: Array, weight: Array) -> bool:
    """Whether instructions multiply bfloat16; packs of several groups' channels they do not."""
    products = kernels.space.isa.products.get(FORM)
    if products is None or weight.ndim == 2 or data.shape[1] == weight.shape[1]:
        return products is not None
    return weight.shape[1] % products.channels == 0


@pytest.mark.parametrize("target", ["host", "avx2", "sse"])
def test_convolution(folder: str, target: str) -> None:
    check(compiler(folder, target), conv((1, 16, 9, 11), 24, pad=1))


@pytest.mark.parametrize("target", ["host", "sse"])
def test_a_vector_times_a_matrix_is_unrolled_and_ends_in_half_a_pair(
    folder: str, target: str
) -> None:
    check(compiler(folder, target), dense(1, 333, 77), ("", ""))


_some = examples(40, suppress_health_check=[HealthCheck.too_slow], deadline=None)


@_some
@given(st.data())
def test_convolutions_of_any_size(folder: str, data: st.DataObject) -> None:
    groups = data.draw(st.sampled_from([1, 1, 1, 2]))
    kernel = data.draw(st.sampled_from([1, 2, 3]))
    image = (
        data.draw(st.integers(1, 2)),
        # Depthwise convolutions are no contractions.
        groups * data.draw(st.integers(1 if groups == 1 else 2, 19)),
        data.draw(st.integers(kernel + 1, 7)),
        data.draw(st.integers(kernel + 1, 9)),
    )
    case = conv(
        image,
        groups * data.draw(st.integers(1, 21)),
        kernel,
        data.draw(st.integers(0, 1)),
        groups,
        data.draw(st.integers(1, 2)),
        data.draw(st.sampled_from([1, 1, 2])) if kernel < 3 else 1,
    )
    layouts = data.draw(st.sampled_from([NHWC, ("", ""), sliced(case[0], NHWC)]))
    check(compiler(folder), case, layouts, seed=data.draw(st.integers(0, 99)))


@_some
@given(rows=st.integers(1, 9), depth=st.integers(1, 70), columns=st.integers(1, 70))
def test_products_of_any_size(folder: str, rows: int, depth: int, columns: int) -> None:
    check(compiler(folder), dense(rows, depth, columns), ("", ""))


def test_what_is_read_is_activated_first(folder: str) -> None:
    def body(emit: Any, x: Any, weight: Any) -> Any:
        doubled = emit(op.multiply(x, relax.const(2.0, "float32")))
        return op.nn.conv2d(emit(op.nn.relu(doubled)), weight)

    function, (_, want) = make_unit([(1, 7, 5, 6)], [(6, 7, 3, 3)], body), conv((1, 7, 5, 6), 6)

    def activated(x: Array, weight: Array) -> Array:
        both = want(np.maximum(2 * x, 0), weight, np.full((1, 6, 1, 1), 1e3))
        return both - 1e3

    check(compiler(folder), (function, activated))


def test_infinite_and_absent_numbers_reach_the_result(folder: str) -> None:
    """Widening keeps them, and what fills the last pair touches nothing."""
    function, _ = dense(1, 3, 9)
    kernels, source = compiler(folder), UnitSource(function, ("", ""))
    unit = kernels.compile_rkernels({"u": source}, only={"u": FORM})["u"][FORM]
    x = np.array([[1.0, 2.0, np.inf]], np.float32)
    weight = np.ones((3, 9), np.float32)
    weight[0, 1], weight[1, 2], weight[2, 3], weight[2, 4] = np.inf, np.nan, -1, 0
    weight[0, 5] = 3e38
    bias = np.zeros(9, np.float32)
    (got,) = run_unit(kernels, unit, ("", ""), [x], [weight, bias], shapes=[(1, 9)])
    with np.errstate(invalid="ignore"):
        assert np.array_equal(got, x @ weight, equal_nan=True)


@pytest.fixture(params=MULTIPLYING)
def multiplying(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> KernelCompiler:
    """A compiler whose kernels multiply bfloat16: emulated, or as this machine does it."""
    return compiler_with(FORM, request.param, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("case", "layouts"),
    [
        (conv((1, 16, 9, 11), 24, pad=1), NHWC),
        (conv((2, 7, 6, 5), 13, 1), NHWC),
        (conv((1, 3, 13, 12), 8, 7, 3, 1, 2), ("", "")),
        (conv((1, 12, 8, 8), 12, 3, 1, 2), NHWC),
        (dense(5, 33, 20), ("", "")),
        (dense(1, 130, 40), ("", "")),
        (dense(5, 33, 20, (2, 3)), ("", "")),
        (dense(1, 33, 20, (4,)), ("", "")),
    ],
)
def test_pairs_are_multiplied_where_the_processor_can(
    multiplying: KernelCompiler, case: Any, layouts: tuple[str, str]
) -> None:
    check(multiplying, case, layouts)


def test_pairs_of_two_groups_are_widened(multiplying: KernelCompiler) -> None:
    check(multiplying, conv((1, 10, 6, 6), 12, 3, 1, 2))


@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=17, max_size=17))
@examples(5, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_data_are_rounded_to_the_nearest(multiplying: KernelCompiler, bits: list[int]) -> None:
    """Data times a one give themselves, of 17 so that vectors and what is left are rounded."""
    function, _ = dense(1, 17, 17)
    source = UnitSource(function, ("", ""))
    unit = multiplying.compile_rkernels({"u": source}, only={"u": FORM})["u"][FORM]
    x = np.array([bits], np.uint32).view(np.float32)
    x[~np.isfinite(x)] = 1.0
    constants = [np.eye(17, dtype=np.float32), np.zeros(17, np.float32)]
    (got,) = run_unit(multiplying, unit, ("", ""), [x], constants, shapes=[x.shape])
    want = rounded(x)
    # The instructions take subnormal numbers for zeros, what emulates them does not.
    tiny = np.abs(want) < np.finfo(np.float32).tiny
    want[tiny & (got == 0)] = 0
    # Zeros and other terms of the sum make -0 of what is infinite after rounding NaN.
    finite = np.isfinite(want).all()
    assert not finite or np.array_equal(got, want)


def test_what_is_no_number_is_none_in_the_data_either(multiplying: KernelCompiler) -> None:
    """Rounded as if it were a number, it would be infinite."""
    function, _ = dense(1, 4, 8)
    source = UnitSource(function, ("", ""))
    unit = multiplying.compile_rkernels({"u": source}, only={"u": FORM})["u"][FORM]
    constants = [np.ones((4, 8), np.float32), np.zeros(8, np.float32)]
    for bits, is_nan in ((0x7F800001, True), (0xFFFFFFFF, True), (0x7F800000, False)):
        x = np.array([[0x3F800000, bits, 0x3F800000, 0]], np.uint32).view(np.float32)
        (got,) = run_unit(multiplying, unit, ("", ""), [x], constants, shapes=[(1, 8)])
        assert (np.isnan(got) if is_nan else np.isposinf(got)).all()


def assembly(target: dict[str, Any], case: Any, layouts: tuple[str, str], folder: Path) -> str:
    kernels = KernelCompiler(target, 2, folder)
    source = UnitSource(case[0], layouts)
    unit = kernels.compile_rkernels({"u": source}, only={"u": FORM})["u"][FORM]
    specs = [kernels.workload(call.symbol) for call in unit.code.calls]
    assert isinstance(specs[-1], Bfloat16Contraction | MatrixContraction)
    of = kernels.space.isa
    modules = [build_kernel(spec, "k", kernels.target, of)[1] for spec in specs]
    return "\n".join(module.inspect_source("asm") for module in modules)


@pytest.mark.parametrize(
    "target",
    [
        {"kind": "llvm", "mcpu": "cooperlake", "num-cores": 2},
        {"kind": "llvm", "mcpu": "znver4", "num-cores": 2},
        AVX512_BF16,
    ],
    ids=lambda target: "".join(target.get("mattr", target["mcpu"])),
)
def test_products_of_pairs_are_one_instruction(target: dict[str, Any], tmp_path: Path) -> None:
    """Few machines have it: what is compiled for it is looked at on any."""
    code = assembly(target, conv((1, 16, 9, 16), 32, pad=1), NHWC, tmp_path)
    assert re.search(r"vdpbf16ps\s.*zmm", code)
    assert "multiply_packs" not in code, "it is written out"
    assert "vfmadd" not in code


def test_products_of_matrices_are_one_instruction(tmp_path: Path) -> None:
    """Their registers are asked for once, and given back."""
    target = {"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2}
    code = assembly(target, conv((1, 16, 9, 16), 32, pad=1), NHWC, tmp_path)
    assert "tdpbf16ps" in code
    assert not re.search(r"call\w* +(multiply|load_|store_|clear_|configure|release)", code), (
        "it is written out"
    )


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=lambda target: target["mcpu"])
def test_elsewhere_weights_are_shifted(target: dict[str, Any], tmp_path: Path) -> None:
    code = assembly(target, dense(1, 128, 64), ("", ""), tmp_path)
    assert "vpslld" in code
    assert "vfmadd" in code
    assert "bf16" not in code


def test_weights_take_half_the_bytes(folder: str) -> None:
    function, _ = dense(1, 128, 64)
    kernels, source = compiler(folder), UnitSource(function, ("", ""))
    usual = kernels.compile({"u": source})["u"]
    form = kernels.compile_rkernels({"u": source}, only={"u": FORM})["u"][FORM]

    def constants(unit: Any) -> int:
        return max(buffer.nbytes for buffer in unit.code.parameters)

    assert 2 * constants(form) == constants(usual)


def test_the_form_is_measured_only_if_it_is_asked_for(tmp_path: Path) -> None:
    source = UnitSource(dense(1, 512, 512)[0], ("", ""))
    target = {**AVX2, "opt-level": 0}
    for given_precision, names in (("float32", [""]), (FORM, [FORM, ""])):
        kernels = KernelCompiler(target, 2, tmp_path, precision=given_precision)
        forms = kernels.compile_forms({"u": source})["u"]
        assert [form.name for form in forms] == names
        # Without a name in the schedule nothing is rounded.
        assert kernels.compile({"u": source})["u"] == forms[-1]
        assert forms[-1].name == ""


def test_many_pixels_are_not_worth_a_measurement(tmp_path: Path) -> None:
    target = {**AVX2, "opt-level": 0}
    kernels = KernelCompiler(target, 2, tmp_path, without=["winograd"], precision=FORM)
    many, few = (conv((1, 16, e, e), 16, pad=1)[0] for e in (28, 3))
    forms = kernels.compile_forms({n: UnitSource(f, NHWC) for n, f in (("m", many), ("f", few))})
    assert [form.name for form in forms["m"]] == [""]
    assert [form.name for form in forms["f"]] == [FORM, ""]


def test_what_has_no_constant_weights_has_no_such_form(folder: str) -> None:
    def product(emit: Any, x: Any, y: Any) -> Any:
        return op.matmul(x, y)

    depthwise = conv((1, 16, 8, 8), 16, groups=16)[0]
    both = make_unit([(1, 8, 9), (1, 9, 8)], [], product)
    for function, layouts in ((depthwise, NHWC), (both, ("", "", ""))):
        assert FORM not in compiler(folder).rkernels(UnitSource(function, layouts))


def test_this_machines_target_has_the_instructions_if_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from runtime_ext.machine import this_machine

    monkeypatch.setattr(this_machine, "host_features", lambda: V4.features | {"avx512bf16"})
    with_products = this_machine.host_target(2, forms=[FORM])
    assert FORM in isa_of(with_products).products
    assert FORM not in isa_of(this_machine.host_target(2)).products
    # An architecture that is named is no more than that.
    named = this_machine.host_target(2, V4.name, forms=[FORM])
    assert FORM not in isa_of(named).products
    monkeypatch.setattr(this_machine, "host_features", lambda: V4.features)
    assert FORM not in isa_of(this_machine.host_target(2, forms=[FORM])).products
    without = isa_of(tvm.target.Target(AVX512))
    rounding = replace(without, rounds=True, products=isa_of(with_products).products)
    assert isa_of(with_products) == rounding
