"""Contractions of integers: the exact sums, in any partition the same bits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.cpu.forms.integers.spec import IntegerContraction
from runtime_ext.cpu.forms.packs.spec import MatrixContraction
from runtime_ext.cpu.kernel_build import build_kernel
from runtime_ext.isa.isa import BYTES
from runtime_ext.isa.levels import isa_of
from runtime_ext.isa.x86 import V3, V4
from runtime_ext.machine.this_machine import host_target
from runtime_ext.units.integers import Bounds
from runtime_ext.units.unit import UnitSource
from tests.kernels.kernel_harness import (
    AVX512,
    MULTIPLYING,
    compiler,
    compiler_with,
    make_unit,
    multiplies_matrices,
    reference,
    run_unit,
    shape_of,
)

op = relax.op
#: A byte without another one.
DIFFERENCES: Bounds = (-255.0, 255.0)
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
    bounds: tuple[Bounds | None, ...] = (DIFFERENCES, WEIGHTS),
    target: str | KernelCompiler = "host",
    form: str = "int16",
) -> None:
    """The form has the default's results in float64, and the same bits in random partitions."""
    kernels = target if isinstance(target, KernelCompiler) else compiler(folder, target)
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
    unit = kernels.compile_rkernels({"u": source}, only={"u": form})["u"][form]
    in_matrices = multiplies_matrices(kernels, form, inputs[0], constants[0])
    contraction = "matrixcontraction" if in_matrices else "integercontraction"
    assert unit.forms[:2] == ("narrowing", contraction)

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
        (DIFFERENCES, None),
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
    source = source_of(conv((1, 16, 9, 11), 16, groups=16), NHWC, (DIFFERENCES, WEIGHTS))
    assert "int16" not in compiler(folder).rkernels(source)


@pytest.fixture(params=MULTIPLYING)
def multiplying(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> KernelCompiler:
    """A compiler whose kernels multiply bytes: emulated, or as this machine does it."""
    return compiler_with(BYTES, request.param, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "data",
    # Unsigned, signed, between zero points, of one sign.
    [(0.0, 255.0), (-128.0, 127.0), (-250.0, 5.0), (-60.0, -3.0), (7.0, 255.0)],
)
def test_bytes_are_shifted(multiplying: KernelCompiler, data: Bounds) -> None:
    """Of all bytes, and of zeros around the image."""
    bounds = (data, (-128.0, 127.0))
    check("", conv((1, 16, 9, 11), 24, pad=1), bounds=bounds, target=multiplying, form=BYTES)


@pytest.mark.parametrize(
    ("data", "out", "options"),
    [
        ((2, 7, 6, 5), 13, {"kernel": 1}),
        # Borders of several pixels, on the right fewer than there are; channels that fill no pack.
        ((1, 3, 13, 12), 8, {"kernel": 7, "stride": 2, "pad": 3}),
        ((1, 5, 8, 8), 20, {"kernel": 2, "stride": 3, "pad": 1}),
        ((1, 16, 8, 8), 12, {"groups": 2, "pad": 1}),
        ((1, 64, 1, 1), 40, {"kernel": 1}),
        ((2, 40, 4, 4), 70, {"pad": 1}),
    ],
)
def test_other_convolutions_of_bytes(
    multiplying: KernelCompiler, data: Any, out: int, options: Any
) -> None:
    bounds = ((-128.0, 127.0), WEIGHTS)
    check("", conv(data, out, **options), bounds=bounds, target=multiplying, form=BYTES)


def test_other_units_of_bytes(multiplying: KernelCompiler) -> None:
    """Images as the model has them, products, what is activated first, a residual sum."""

    def dense(emit: Any, x: Any, weight: Any, scale: Any) -> Any:
        return op.multiply(emit(op.matmul(x, weight)), scale)

    def shifted(emit: Any, x: Any, weight: Any) -> Any:
        less = emit(op.subtract(x, relax.const(100.0, "float32")))
        return op.nn.conv2d(emit(op.nn.relu(less)), weight, padding=1)

    def added(emit: Any, x: Any, weight: Any) -> Any:
        return op.add(emit(op.nn.conv2d(x, weight, padding=1)), x)

    bounds, flat = ((-128.0, 127.0), WEIGHTS), ("", "")
    for function, layouts, known in (
        (conv((1, 6, 8, 8), 12, pad=1), flat, bounds),
        (make_unit([(5, 33)], [(33, 20), (20,)], dense), flat, bounds),
        (make_unit([(3, 5, 33)], [(33, 20), (20,)], dense), flat, bounds),
        (make_unit([(1, 8, 10, 10)], [(6, 8, 3, 3)], shifted), NHWC, ((0.0, 355.0), WEIGHTS)),
        (make_unit([(1, 12, 7, 7)], [(12, 12, 3, 3)], added), NHWC, bounds),
    ):
        check("", function, layouts, known, target=multiplying, form=BYTES)


@pytest.mark.parametrize("multiplying", ["emulated", "host"], indirect=True)
@pytest.mark.parametrize(
    ("data", "weights", "groups"),
    [
        # Too many numbers, with the zeros around them; too large weights; packs of two groups.
        (DIFFERENCES, WEIGHTS, 1),
        ((1.0, 256.0), WEIGHTS, 1),
        ((-300.0, -100.0), WEIGHTS, 1),
        ((0.0, 255.0), (-128.0, 128.0), 1),
        ((0.0, 255.0), WEIGHTS, 8),
    ],
)
def test_what_does_not_fit_bytes_takes_16_bits(
    multiplying: KernelCompiler, data: Bounds, weights: Bounds, groups: int
) -> None:
    source = source_of(conv((1, 16, 9, 11), 24, pad=1, groups=groups), NHWC, (data, weights))
    assert [f.name for f in multiplying.compile_forms({"u": source})["u"]][:1] == ["int16"]
    assert BYTES not in multiplying.rkernels(source)


def test_bytes_are_timed_in_the_place_of_16_bits(multiplying: KernelCompiler) -> None:
    source = source_of(conv((1, 16, 9, 11), 24, pad=1), NHWC, ((0.0, 255.0), WEIGHTS))
    names = [form.name for form in multiplying.compile_forms({"u": source})["u"]]
    assert BYTES in names
    assert "int16" not in names
    # A schedule may name either.
    assert {BYTES, "int16"} <= set(multiplying.rkernels(source))


@pytest.mark.parametrize(
    ("options", "name", "instruction"),
    [
        ({"mcpu": "x86-64-v4"}, "int16", "zmm"),
        # What has VNNI multiplies and adds up at once.
        ({"mcpu": "x86-64-v4", "mattr": ["+avx512vnni"]}, "int16", "vpdpwssd"),
        ({"mcpu": "x86-64-v4", "mattr": ["+avx512vnni"]}, "int8", "vpdpbusd"),
        ({"mcpu": "x86-64-v3", "mattr": ["+avxvnni"]}, "int8", "vpdpbusd"),
        ({"mcpu": "sapphirerapids"}, "int16", "vpdpwssd"),
        ({"mcpu": "sapphirerapids"}, "int8", "tdpbusd"),
    ],
)
def test_instructions(tmp_path: Path, options: Any, name: str, instruction: str) -> None:
    """Few machines have them: what is compiled for them is looked at on any."""
    kernels = KernelCompiler({**AVX512, **options}, 2, tmp_path)
    source = source_of(conv((1, 16, 9, 11), 32, pad=1), NHWC, ((0.0, 255.0), WEIGHTS))
    unit = kernels.compile_rkernels({"u": source}, only={"u": name})["u"][name]
    spec = kernels.workload(unit.code.calls[1].symbol)
    assert isinstance(spec, IntegerContraction | MatrixContraction)
    _, module = build_kernel(spec, "k", kernels.target, kernels.space.isa)
    code = module.inspect_source("asm")
    assert instruction in code
    assert not re.search(r"call\w* +(multiply|load_|store_|clear_|configure|release)", code), (
        "it is written out"
    )


def test_this_machines_target_has_the_instructions_if_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from runtime_ext.machine import this_machine

    for level, feature in ((V3, "avxvnni"), (V4, "avx512vnni")):
        features = level.features
        with_it = features | {feature}
        monkeypatch.setattr(this_machine, "host_features", lambda with_it=with_it: with_it)
        assert BYTES in isa_of(host_target(2, forms=[BYTES])).products
        assert BYTES not in isa_of(host_target(2)).products
        # An architecture that is named is no more than that.
        assert BYTES not in isa_of(host_target(2, level.name, forms=[BYTES])).products
        monkeypatch.setattr(this_machine, "host_features", lambda features=features: features)
        assert BYTES not in isa_of(host_target(2, forms=[BYTES])).products


def test_what_integers_compute_exactly_is_in_no_form_that_rounds(folder: str) -> None:
    kernels, function = compiler(folder, "avx2"), conv((1, 64, 28, 28), 64, pad=1)
    sources = {
        "integers": source_of(function, NHWC, (DIFFERENCES, WEIGHTS)),
        "floats": UnitSource(function, NHWC),
    }
    names = {
        unit: {form.name for form in forms}
        for unit, forms in kernels.compile_forms(sources).items()
    }
    assert names["integers"] == {"int16", ""}
    assert any(name.startswith("winograd") for name in names["floats"])
