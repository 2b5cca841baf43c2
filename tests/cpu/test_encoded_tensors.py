"""Units whose tensors lie encoded in memory compute what they do with floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.ir_form import CHAIN
from runtime_ext.isa.isa import BYTES
from runtime_ext.kernels.relax_function import tensor_types
from runtime_ext.kernels.spec import BFLOAT16, Encoding
from runtime_ext.units.unit import UnitSource
from runtime_ext.units.values import Layout, SliceLayout
from tests.fast_run import crossed
from tests.kernels.kernel_harness import (
    MULTIPLYING,
    compiler,
    compiler_with,
    make_unit,
    run_unit,
    scaled,
    shape_of,
    sliced,
    to_logical,
    to_physical,
)
from tvm_ios.files.array_files import Array
from tvm_ios.program.bfloat16 import FORM, bfloat16_bits
from tvm_ios.program.compiled_unit import CompiledUnit

op = relax.op
SIGNED, UNSIGNED = Encoding("uint8", 128), Encoding("uint8")
IMAGE, WIDE, SMALL = (1, 20, 6, 7), (1, 37, 6, 7), (1, 8, 6, 7)
MATRICES = [(2, 3, 6, 8), (2, 3, 8, 9), (2, 3, 9, 7)]
NHWC = ("NHWC", "NHWC")
ENCODINGS = {"bytes": SIGNED, "bfloat16": BFLOAT16}


@dataclass(frozen=True)
class Case:
    """A unit; what it computes is scaled before it is rounded to integers."""

    inputs: list[tuple[int, ...]]
    constants: list[tuple[int, ...]]
    body: Callable[..., Any]
    orders: str
    scale: float = 1.0
    chain: bool = False

    @property
    def layouts(self) -> tuple[str, ...]:
        return tuple("NHWC" if order == "i" else "" for order in self.orders)

    def function(self, *, integers: bool) -> Any:
        def in_integers(emit: Any, *parameters: Any) -> Any:
            value = emit(op.multiply(emit(self.body(emit, *parameters)), relax.const(self.scale)))
            return op.clip(emit(op.round(value)), -100, 100)

        body = in_integers if integers else self.body
        made = make_unit(self.inputs, self.constants, body)
        return made.with_attr(CHAIN, 1) if self.chain else made


def shuffled(emit: Any, x: Any) -> Any:
    apart = emit(op.reshape(emit(op.nn.relu(x)), (1, 2, 10, 6, 7)))
    return op.reshape(emit(op.permute_dims(apart, [0, 2, 1, 3, 4])), IMAGE)


def separable(emit: Any, x: Any, depthwise: Any, pointwise: Any) -> Any:
    reduced = emit(op.nn.conv2d(x, depthwise, padding=1, groups=20))
    return op.nn.conv2d(emit(op.nn.relu(reduced)), pointwise)


def attention(emit: Any, q: Any, k: Any, v: Any) -> Any:
    scores = emit(op.multiply(emit(op.matmul(q, k)), relax.const(0.001)))
    return op.matmul(emit(op.nn.softmax(scores)), v)


def gated(emit: Any, x: Any, gate: Any, added: Any) -> Any:
    return op.add(emit(op.multiply(x, emit(op.sigmoid(gate)))), added)


def softmax(emit: Any, x: Any) -> Any:
    return op.nn.softmax(emit(op.multiply(x, relax.const(0.02))))


def normed(emit: Any, x: Any, scale: Any, bias: Any) -> Any:
    return op.nn.layer_norm(x, scale, bias, axes=[-1])


def resized(emit: Any, x: Any) -> Any:
    coordinates = {"coordinate_transformation_mode": "half_pixel"}
    return op.image.resize2d(x, relax.ShapeExpr((12, 14)), method="linear", **coordinates)


CASES = {
    "sum and relu": Case([IMAGE] * 2, [], lambda e, x, y: op.nn.relu(e(op.add(x, y))), "iii"),
    "relu of the model's order": Case([WIDE], [], lambda e, x: op.nn.relu(x), "  "),
    "broadcast": Case([IMAGE, (1, 20, 1, 1), (1, 1, 6, 7)], [], gated, "iiii"),
    "max pool": Case([IMAGE], [], lambda e, x: op.nn.max_pool2d(x, (3, 3), 2, 1), "ii"),
    "average pool": Case([IMAGE], [], lambda e, x: op.nn.avg_pool2d(x, (3, 3), 2, 1), "ii"),
    "mean of pixels": Case(
        [(2, 70, 5, 3)], [], lambda e, x: op.mean(x, [2, 3], keepdims=True), "ii", 3.0
    ),
    "convolution": Case(
        [IMAGE], [(24, 20, 3, 3)], lambda e, x, w: op.nn.conv2d(x, w, padding=1), "ii"
    ),
    "convolution and its input": Case(
        [IMAGE], [(20, 20, 3, 3)], lambda e, x, w: op.add(e(op.nn.conv2d(x, w, padding=1)), x), "ii"
    ),
    "groups": Case([IMAGE], [(24, 5, 3, 3)], lambda e, x, w: op.nn.conv2d(x, w, groups=4), "ii"),
    "depthwise": Case(
        [IMAGE], [(20, 1, 3, 3)], lambda e, x, w: op.nn.conv2d(x, w, groups=20), "ii"
    ),
    "transposed convolution": Case(
        [IMAGE], [(20, 5, 3, 3)], lambda e, x, w: op.nn.conv2d_transpose(x, w), "ii"
    ),
    "product": Case([(5, 33)], [(33, 20)], lambda e, x, w: op.matmul(x, w), "  "),
    "product of data": Case(MATRICES[:2], [], lambda e, x, y: op.matmul(x, y), "   ", 0.01),
    "concat": Case([IMAGE, WIDE], [], lambda e, x, y: op.concat([x, y], axis=1), "iii"),
    "slice": Case(
        [IMAGE], [], lambda e, x: op.strided_slice(x, [1, 3], [3, 0], [17, 7], [2, 3]), "ii"
    ),
    "padded": Case([IMAGE], [], lambda e, x: op.nn.pad(x, [0, 0, 0, 0, 2, 1, 0, 3]), "ii"),
    "more channels": Case([IMAGE], [], lambda e, x: op.nn.pad(x, [0, 0, 1, 2, *[0] * 4]), "ii"),
    "transpose": Case([IMAGE], [], lambda e, x: op.permute_dims(x, [0, 2, 3, 1]), "i "),
    "reshape": Case([IMAGE], [], lambda e, x: op.reshape(x, (1, 840)), "i "),
    "shuffle": Case([IMAGE], [], shuffled, "ii"),
    "TVM's own": Case([IMAGE], [], lambda e, x: op.flip(x, 2), "ii"),
    "five axes": Case([(2, 1, 3, 2, 5)], [], lambda e, x: op.abs(x), "  "),
    "resized": Case([IMAGE], [], resized, "ii"),
    "softmax": Case([(3, 4, 37)], [], softmax, "  ", 100.0),
    "layer norm": Case([(3, 4, 37)], [(37,), (37,)], normed, "  ", 30.0),
    "chain": Case([IMAGE], [(20, 1, 3, 3), (24, 20, 1, 1)], separable, "ii", chain=True),
    "attention": Case(MATRICES, [], attention, "    ", chain=True),
}


def rounded(array: Array) -> Array:
    return decoded(bfloat16_bits(array), BFLOAT16)


def encoded(array: Array, encoding: Encoding | None) -> Array:
    """What is not a number, around a slice, is the largest byte."""
    if encoding is None:
        return array
    if encoding == BFLOAT16:
        return bfloat16_bits(array)
    return np.where(np.isnan(array), 255, array + encoding.shift).astype(encoding.dtype)


def decoded(array: Array, encoding: Encoding | None) -> Array:
    if encoding is None:
        return array
    if encoding == BFLOAT16:
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array.astype(np.float32) - np.float32(encoding.shift)


def drawn(shape: tuple[int, ...], encoding: Encoding | None, rng: np.random.Generator) -> Array:
    if encoding is None:
        return (20 * rng.standard_normal(shape)).astype(np.float32)
    if encoding == BFLOAT16:
        return rounded(np.float32(20) * rng.standard_normal(shape, np.float32))
    return (rng.integers(0, 256, shape) - encoding.shift).astype(np.float32)


def arguments_of(source: UnitSource, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    count = int(source.function.attrs["num_input"])
    shapes = [shape_of(p.ty) for p in source.function.params]
    data = [drawn(*each, rng) for each in zip(shapes, source.encodings, strict=False)][:count]
    if source.integers:
        constants = [rng.integers(-127, 128, shape).astype(np.float32) for shape in shapes[count:]]
        return [*data, *constants]
    constants = [rng.standard_normal(shape).astype(np.float32) for shape in shapes[count:]]
    return [*data, *(scaled(c) if c.ndim > 1 else c for c in constants)]


def run(
    kernels: KernelCompiler,
    unit: CompiledUnit,
    source: UnitSource,
    arguments: Sequence[Array],
    cuts: Callable[[int], Sequence[int]] = lambda tiles: (0, tiles),
) -> list[Array]:
    """The results as floats; around slices nothing may have been written."""
    count = int(source.function.attrs["num_input"])
    encodings = source.encodings or (None,) * len(source.layouts)
    places = list(zip(source.layouts, encodings, strict=True))
    inputs = [
        encoded(to_physical(array, layout), encoding)
        for array, (layout, encoding) in zip(arguments[:count], places, strict=False)
    ]
    as_is = ("",) * len(places)
    written = run_unit(kernels, unit, as_is, inputs, arguments[count:], cuts)
    types = tensor_types(source.function.ret_ty)
    results: list[Array] = []
    for array, (layout, encoding), ty in zip(written, places[count:], types, strict=True):
        shape, values = shape_of(ty), decoded(array, encoding).copy()
        around = np.isnan(to_physical(np.zeros(shape, np.float32), layout))
        if encoding is not None:
            assert not array[around].any()
            values[around] = np.nan
        results.append(to_logical(values, layout, shape))
    return results


def compiled(kernels: KernelCompiler, source: UnitSource, form: str) -> CompiledUnit:
    if not form:
        return kernels.compile({"u": source})["u"]
    return kernels.compile_rkernels({"u": source}, only={"u": form})["u"][form]


def check(
    kernels: KernelCompiler, source: UnitSource, form: str = ""
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Results are those of the unit on floats, encoded; in random partitions the same.

    Returns
    -------
    tuple
        The kernels of the unit, and those of the unit on floats.
    """
    arguments = arguments_of(source)
    on_floats = UnitSource(source.function, source.layouts, integers=source.integers)
    unit, of_floats = (compiled(kernels, each, form) for each in (source, on_floats))
    wanted = run(kernels, of_floats, on_floats, arguments)
    got = run(kernels, unit, source, arguments)
    rng = np.random.default_rng(0)

    def cuts(tiles: int) -> list[int]:
        return [0, *sorted(rng.integers(0, tiles + 1, 3).tolist()), tiles]

    parts = run(kernels, unit, source, arguments, cuts)
    count = len(source.layouts) - len(wanted)
    for have, want, part, encoding in zip(
        got, wanted, parts, source.encodings[count:], strict=True
    ):
        assert np.isfinite(want).all()
        assert len(np.unique(want)) > min(5, want.size // 2)
        assert np.array_equal(have, rounded(want) if encoding == BFLOAT16 else want)
        assert have.tobytes() == part.tobytes()
    return unit.forms, of_floats.forms


@pytest.mark.parametrize(("name", "numbers"), crossed(CASES, ENCODINGS))
def test_what_is_read_counts_as_the_floats_that_it_is(
    kernels_folder: Path, name: str, numbers: str
) -> None:
    case, encoding = CASES[name], ENCODINGS[numbers]
    encodings = (*[encoding] * len(case.inputs), None)
    source = UnitSource(case.function(integers=False), case.layouts, encodings=encodings)
    check(compiler(str(kernels_folder)), source)


@pytest.mark.parametrize(("name", "numbers"), crossed(CASES, reversed(ENCODINGS)))
def test_results_are_those_in_floats_encoded_at_the_end(
    kernels_folder: Path, name: str, numbers: str
) -> None:
    case, encoding = CASES[name], ENCODINGS[numbers]
    function = case.function(integers=encoding != BFLOAT16)
    encodings = (*[None] * len(case.inputs), encoding)
    source = UnitSource(function, case.layouts, encodings=encodings)
    check(compiler(str(kernels_folder)), source)


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("name", ["sum and relu", "max pool", "convolution", "mean of pixels"])
def test_nothing_around_slices_is_read_or_written(
    kernels_folder: Path, name: str, encoding: Encoding
) -> None:
    case = CASES[name]
    function = case.function(integers=encoding != BFLOAT16)
    layouts = sliced(function, case.layouts)
    source = UnitSource(function, layouts, encodings=(encoding,) * len(layouts))
    check(compiler(str(kernels_folder)), source)


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("channels", [1, 3, 17, 33])
def test_channels_that_fill_no_vector(
    kernels_folder: Path, channels: int, encoding: Encoding
) -> None:
    image, weights = (2, channels, 5, 4), (channels, channels, 1, 1)
    bodies = {
        "sum": Case([image] * 2, [], lambda e, x, y: op.add(x, y), "iii"),
        "pool": Case([image], [], lambda e, x: op.nn.max_pool2d(x, (2, 2)), "ii"),
        "product": Case([image], [weights], lambda e, x, w: op.nn.conv2d(x, w), "ii"),
    }
    for case in bodies.values():
        function = case.function(integers=encoding != BFLOAT16)
        source = UnitSource(function, case.layouts, encodings=(encoding,) * len(case.layouts))
        check(compiler(str(kernels_folder)), source)


@pytest.mark.parametrize(
    ("before", "after"), [(SIGNED, UNSIGNED), (UNSIGNED, SIGNED), (SIGNED, BFLOAT16)]
)
def test_what_is_read_may_lie_otherwise_than_what_is_written(
    kernels_folder: Path, before: Encoding, after: Encoding
) -> None:
    def body(emit: Any, x: Any) -> Any:
        return op.minimum(emit(op.nn.relu(x)), relax.const(127.0))

    function = make_unit([IMAGE], [], body)
    source = UnitSource(function, NHWC, encodings=(before, after))
    check(compiler(str(kernels_folder)), source)


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_a_concatenation_copies_what_is_not_there_yet(
    kernels_folder: Path, encoding: Encoding
) -> None:
    function = make_unit([SMALL, WIDE], [], lambda emit, x, y: op.concat([x, y], axis=1))
    layouts = (SliceLayout("NHWC", 1, 0, 45), "NHWC", "NHWC")
    source = UnitSource(function, layouts, frozenset({0}), encodings=(encoding,) * 3)
    kernels = compiler(str(kernels_folder))
    unit = kernels.compile({"u": source})["u"]
    arguments = arguments_of(source)
    (got,) = run(kernels, unit, source, arguments)
    assert unit.forms == ("pointwise",)
    assert np.array_equal(got[:, 8:], arguments[1])
    assert (got[:, :8] == decoded(np.zeros(1, encoding.dtype), encoding)).all()


#: Integers of units in the form of bytes: of what SIGNED encodes, and of their weights.
INTEGERS = ((-128.0, 127.0), (-127.0, 127.0))


def convolution(
    image: tuple[int, ...], out: int, kernel: int, strides: int = 1, padding: int = 0
) -> Case:
    def body(emit: Any, x: Any, weight: Any) -> Any:
        return op.nn.conv2d(x, weight, strides=strides, padding=padding)

    return Case([image], [(out, image[1], kernel, kernel)], body, "ii", 0.0005)


def after_relu(emit: Any, x: Any, weight: Any) -> Any:
    return op.nn.conv2d(emit(op.nn.relu(x)), weight)


def residual(emit: Any, x: Any, weight: Any) -> Any:
    return op.add(emit(op.nn.conv2d(x, weight)), x)


@pytest.mark.parametrize(
    ("form", "encoding"),
    [
        ("winograd-2", SIGNED),
        ("winograd-2", BFLOAT16),
        (FORM, SIGNED),
        (FORM, BFLOAT16),
        ("int16", SIGNED),
    ],
)
def test_other_forms_read_and_write_encoded_tensors(
    kernels_folder: Path, form: str, encoding: Encoding
) -> None:
    in_bytes = encoding == SIGNED
    function = convolution((1, 20, 9, 9), 24, 3, padding=1).function(integers=in_bytes)
    integers = INTEGERS if in_bytes else ()
    source = UnitSource(function, NHWC, integers=integers, encodings=(encoding, encoding))
    check(compiler(str(kernels_folder)), source, form)


INSTRUCTIONS = list(product((BYTES, FORM), MULTIPLYING))
EMULATED = [(form, on) for form, on in INSTRUCTIONS if on.startswith("emulated")]


@pytest.fixture(params=INSTRUCTIONS, ids="-".join)
def multiplying(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, KernelCompiler]:
    """A form, and a compiler that has its instructions."""
    form, on = request.param
    return form, compiler_with(form, on, tmp_path, monkeypatch)


def multiplied(
    multiplying: tuple[str, KernelCompiler], case: Case, layouts: tuple[Layout, ...] | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """As of :func:`check`, of a unit whose data lie in the form's numbers."""
    form, kernels = multiplying
    in_bytes = form == BYTES
    encodings = (SIGNED, SIGNED) if in_bytes else (BFLOAT16, BFLOAT16)
    source = UnitSource(
        case.function(integers=in_bytes),
        layouts or case.layouts,
        integers=INTEGERS if in_bytes else (),
        encodings=encodings,
    )
    return check(kernels, source, form)


ONE_BY_ONE = convolution((2, 32, 8, 8), 24, 1)
DIRECTLY_READ = {
    "1x1": ONE_BY_ONE,
    "3x3": convolution((1, 32, 10, 10), 24, 3),
    "strides": convolution((1, 32, 9, 9), 24, 3, 2),
    "product": Case([(16, 64)], [(64, 40)], lambda e, x, w: op.matmul(x, w), "  ", 0.0005),
    "residual": Case([(1, 32, 4, 8)], [(32, 32, 1, 1)], residual, "ii", 0.0005),
}
NARROWED = {
    "pads": convolution((1, 32, 8, 8), 24, 3, padding=1),
    "channels that fill no pack": convolution((1, 7, 8, 8), 24, 1),
    "relu before": Case([(1, 32, 8, 8)], [(24, 32, 1, 1)], after_relu, "ii", 0.0005),
}


@pytest.mark.parametrize("name", DIRECTLY_READ)
def test_what_lies_as_it_is_multiplied_is_read_directly(
    multiplying: tuple[str, KernelCompiler], name: str
) -> None:
    forms, of_floats = multiplied(multiplying, DIRECTLY_READ[name])
    assert len(forms) == 1
    assert of_floats == ("narrowing", *forms)


@pytest.mark.parametrize("multiplying", EMULATED, indirect=True, ids="-".join)
@pytest.mark.parametrize("name", NARROWED)
def test_what_has_to_be_changed_first_is_narrowed(
    multiplying: tuple[str, KernelCompiler], name: str
) -> None:
    forms, of_floats = multiplied(multiplying, NARROWED[name])
    assert forms == of_floats
    assert forms[0] == "narrowing"


SLICES = (SliceLayout("NHWC", 1, 3, 41), SliceLayout("NHWC", 1, 5, 31))


def test_a_slice_is_read_directly(multiplying: tuple[str, KernelCompiler]) -> None:
    forms, of_floats = multiplied(multiplying, ONE_BY_ONE, SLICES)
    assert of_floats == ("narrowing", *forms)


@pytest.mark.parametrize("multiplying", EMULATED, indirect=True, ids="-".join)
def test_a_slice_is_narrowed_for_a_kernel_that_reads_several_pixels_as_one(
    multiplying: tuple[str, KernelCompiler],
) -> None:
    forms, of_floats = multiplied(multiplying, DIRECTLY_READ["3x3"], SLICES)
    assert forms == of_floats
    assert forms[0] == "narrowing"


@pytest.mark.parametrize("multiplying", EMULATED, indirect=True, ids="-".join)
def test_no_matrix_is_read_that_ends_after_the_image(
    multiplying: tuple[str, KernelCompiler],
) -> None:
    forms, _ = multiplied(multiplying, convolution((1, 32, 1, 17), 24, 1))
    assert (forms[0] == "narrowing") == (forms[-1] == "matrixcontraction")


@pytest.fixture(params=["by arithmetic", "by an instruction"])
def rounding(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> KernelCompiler:
    """A compiler whose kernels round to bfloat16 in some way."""
    if request.param == "by arithmetic":
        return compiler(str(tmp_path))
    return compiler_with(FORM, "host", tmp_path, monkeypatch)


def copied(
    kernels: KernelCompiler, x: Array, before: Encoding | None, after: Encoding | None
) -> Array:
    function = make_unit([x.shape], [], lambda emit, x: op.expand_dims(x, 0))
    source = UnitSource(function, ("", ""), encodings=(before, after))
    (result,) = run(kernels, kernels.compile({"u": source})["u"], source, [x])
    return result[0]


def test_every_bfloat16_is_read_as_it_is(rounding: KernelCompiler) -> None:
    x = rounded(decoded(np.arange(2**16, dtype=np.uint16), BFLOAT16))
    assert copied(rounding, x, BFLOAT16, None).tobytes() == x.tobytes()


def test_results_are_rounded_to_the_nearest_of_two_the_even_one(rounding: KernelCompiler) -> None:
    """And what is no number stays so, what is infinite or too large is infinite."""
    upper = np.random.default_rng(0).integers(0, 2**16, 500, np.uint32)
    upper = np.append(upper, np.uint32([0, 0x8000, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FFF, 1]))
    lower = np.uint32([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
    x = (upper[:, None] << np.uint32(16) | lower).view(np.float32).ravel()[:-1]
    got, want = copied(rounding, x, None, BFLOAT16), rounded(x)
    assert np.isnan(want).any()
    assert np.isinf(want).any()
    # The instruction takes subnormal numbers for zeros.
    tiny = np.abs(x) < np.finfo(np.float32).tiny
    want[tiny & (got == 0)] = 0
    assert np.array_equal(got, want, equal_nan=True)
