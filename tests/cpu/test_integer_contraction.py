"""Contractions of integers: the exact sums, in any partition the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.kernels.integer_contraction import IntegerContraction
from runtime_ext.units.integers import Bounds
from runtime_ext.units.unit import UnitSource
from tests.kernels.kernel_harness import AVX512, compiler, make_unit, reference, run_unit, shape_of

op = relax.op
BYTES: Bounds = (-255.0, 255.0)
WEIGHTS: Bounds = (-127.0, 127.0)
NHWC = ("NHWC", "NHWC")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("kernels"))


def conv(
    data: tuple[int, ...], out: int, kernel: int = 3, pad: int = 0, groups: int = 1, stride: int = 1
) -> Any:
    """A convolution whose sums are scaled, rounded and clipped."""

    def body(emit: Any, x: Any, weight: Any, scale: Any) -> Any:
        total = emit(op.nn.conv2d(x, weight, strides=stride, padding=pad, groups=groups))
        value = emit(op.multiply(total, scale))
        return op.minimum(emit(op.round(value)), relax.const(127.0, "float32"))

    weights = (out, data[1] // groups, kernel, kernel)
    return make_unit([data], [weights, (1, out, 1, 1)], body)


def source_of(function: Any, layouts: Any, bounds: tuple[Bounds | None, ...]) -> UnitSource:
    unknown = (None,) * (len(function.params) - len(bounds))
    return UnitSource(function, tuple(layouts), integers=(*bounds, *unknown))


def check(
    folder: str,
    function: Any,
    layouts: Any = NHWC,
    bounds: tuple[Bounds | None, ...] = (BYTES, WEIGHTS),
    target: str = "host",
) -> None:
    """The form has the default's results in float64, and the same bits in random partitions."""
    kernels: KernelCompiler = compiler(folder, target)
    source = source_of(function, layouts, bounds)
    rng = np.random.default_rng(0)
    arguments = []
    for parameter, known in zip(function.params, source.integers, strict=True):
        low, high = known or (0, 0)
        drawn = rng.integers(int(low), int(high) + 1, shape_of(parameter.ty))
        of_other = rng.uniform(0.001, 0.002, shape_of(parameter.ty))
        arguments.append((drawn if known else of_other).astype(np.float32))
    count = int(function.attrs["num_input"])
    inputs, constants = arguments[:count], arguments[count:]
    want = reference(function, arguments)
    shapes = [wish.shape for wish in want]
    unit = kernels.compile_rkernels({"u": source}, only={"u": "int16"})["u"]["int16"]
    assert unit.forms[:2] == ("narrowing", "integercontraction")

    def cuts(tiles: int) -> list[int]:
        return [0, *sorted(rng.integers(0, tiles + 1, 3).tolist()), tiles]

    got = run_unit(kernels, unit, layouts, inputs, constants, shapes=shapes)
    parts = run_unit(kernels, unit, layouts, inputs, constants, cuts, shapes)
    for have, wish, part in zip(got, want, parts, strict=True):
        # TVM's sums are rounded only beyond 2 ** 24, which these stay below.
        assert np.array_equal(have, wish)
        assert len(np.unique(have)) > 9
        assert have.tobytes() == part.tobytes()


@pytest.mark.parametrize("target", ["host", "avx2", "sse"])
def test_convolution(folder: str, target: str) -> None:
    check(folder, conv((1, 16, 9, 11), 24, pad=1), target=target)


@pytest.mark.parametrize(
    ("data", "out", "options"),
    [
        # A row of pixels; channels that fill no vector, and an odd number of them.
        ((2, 7, 6, 5), 13, {"kernel": 1}),
        ((1, 3, 13, 12), 8, {"kernel": 7, "stride": 2, "pad": 3}),
        ((1, 16, 8, 8), 12, {"groups": 2, "pad": 1}),
        ((1, 64, 1, 1), 40, {"kernel": 1}),
    ],
)
def test_other_convolutions(folder: str, data: Any, out: int, options: Any) -> None:
    check(folder, conv(data, out, **options))


def test_images_as_the_model_has_them(folder: str) -> None:
    check(folder, conv((1, 6, 8, 8), 12, pad=1), ("", ""))


def test_dense(folder: str) -> None:
    def body(emit: Any, x: Any, weight: Any, scale: Any) -> Any:
        return op.multiply(emit(op.matmul(x, weight)), scale)

    check(folder, make_unit([(5, 33)], [(33, 20), (20,)], body), ("", ""))


def test_what_is_read_is_shifted_and_activated_first(folder: str) -> None:
    def body(emit: Any, x: Any, weight: Any) -> Any:
        shifted = emit(op.subtract(x, relax.const(100.0, "float32")))
        return op.nn.conv2d(emit(op.nn.relu(shifted)), weight, padding=1)

    check(folder, make_unit([(1, 8, 10, 10)], [(6, 8, 3, 3)], body))


def test_a_sum_with_what_is_read(folder: str) -> None:
    def body(emit: Any, x: Any, weight: Any) -> Any:
        return op.add(emit(op.nn.conv2d(x, weight, padding=1)), x)

    check(folder, make_unit([(1, 12, 7, 7)], [(12, 12, 3, 3)], body))


@pytest.mark.parametrize(
    "bounds",
    [
        (None, WEIGHTS),
        (BYTES, None),
        # More than 16 bits, and sums of more than 32.
        ((0.0, 65535.0), WEIGHTS),
        ((-32767.0, 32767.0), (-32767.0, 32767.0)),
        ((-np.inf, np.inf), WEIGHTS),
    ],
)
def test_what_is_not_known_to_be_small_integers_has_no_such_form(
    folder: str, bounds: tuple[Bounds | None, ...]
) -> None:
    source = source_of(conv((1, 16, 9, 11), 24), NHWC, bounds)
    assert "int16" not in compiler(folder).rkernels(source)


def test_depthwise_convolutions_have_no_such_form(folder: str) -> None:
    source = source_of(conv((1, 16, 9, 11), 16, groups=16), NHWC, (BYTES, WEIGHTS))
    assert "int16" not in compiler(folder).rkernels(source)


@pytest.mark.parametrize(
    ("options", "name", "instruction"),
    [
        ({"mcpu": "x86-64-v4"}, "int16", "zmm"),
        # What has VNNI multiplies and adds up at once.
        ({"mcpu": "x86-64-v4", "mattr": ["+avx512vnni"]}, "int16", "vpdpwssd"),
    ],
)
def test_avx512(tmp_path: Any, options: Any, name: str, instruction: str) -> None:
    from runtime_ext.cpu.kernels.build import build_kernel
    from runtime_ext.cpu.kernels.vector_unit import VectorUnit

    kernels = KernelCompiler({**AVX512, **options}, 2, tmp_path)
    source = source_of(conv((1, 16, 9, 11), 32, pad=1), NHWC, (BYTES, WEIGHTS))
    unit = kernels.compile_rkernels({"u": source}, only={"u": name})["u"][name]
    spec = kernels.workload(unit.code.calls[1].symbol)
    assert isinstance(spec, IntegerContraction)
    _, module = build_kernel(spec, "k", kernels.target, VectorUnit.of(kernels.target))
    assert instruction in module.inspect_source("asm")
