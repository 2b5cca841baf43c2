"""Which tensors between units lie encoded in memory, and how."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from relay_passes.pipeline import prepare
from relay_passes.relax.importer import import_onnx
from runtime_ext.kernels.spec import BFLOAT16, Encoding
from runtime_ext.units.in_place import Arrangement, arrange
from tests.fast_run import examples
from tests.kernels.kernel_harness import make_unit, shape_of
from tests.quantised_models import models
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.onnx.simplify import simplify

op = relax.op
IMAGE, ROWS = (1, 8, 6, 6), (5, 8)
BOTH = ("uint8", "bfloat16")
Shape = tuple[int, ...]


class Units:
    """A graph of units, drawn one after another; tensors are numbers."""

    def __init__(self, *inputs: Shape) -> None:
        self.inputs = range(len(inputs))
        self.tensors = [Tensor(f"x{i}", shape) for i, shape in enumerate(inputs)]
        self.operators: list[Operator] = []
        self.functions: list[Any] = []

    def unit(self, body: Callable[..., Any], *inputs: int, constants: Sequence[Shape] = ()) -> int:
        """Append a unit; returns what it makes."""
        number = len(self.operators)
        function = make_unit([self.tensors[t].shape for t in inputs], constants, body)
        self.functions.append(function)
        self.tensors.append(Tensor(f"t{number}", shape_of(function.ret_ty)))
        self.operators.append(Operator(f"u{number}", "unit", inputs, (len(self.tensors) - 1,)))
        return len(self.tensors) - 1

    def arranged(self, *outputs: int, allowed: Collection[str] = BOTH) -> Arrangement:
        graph = OpGraph(
            "units", tuple(self.operators), tuple(self.tensors), tuple(self.inputs), outputs
        )
        return arrange(graph, self.functions, allowed)


def exp(emit: Any, x: Any) -> Any:
    return op.exp(x)


def in_integers(low: float, high: float) -> Callable[..., Any]:
    """A unit whose results are integers."""

    def body(emit: Any, x: Any) -> Any:
        least = emit(op.maximum(emit(op.round(x)), relax.const(low, "float32")))
        return op.minimum(least, relax.const(high, "float32"))

    return body


def joined(emit: Any, *parts: Any) -> Any:
    return op.concat(list(parts), axis=1)


def convolution(emit: Any, x: Any, weight: Any) -> Any:
    return op.nn.conv2d(x, weight, groups=8 // shape_of(weight.ty)[1])


def read_by(
    reader: Callable[..., Any],
    *constants: Shape,
    shape: Shape = IMAGE,
    allowed: Collection[str] = BOTH,
) -> Encoding | None:
    """How a tensor lies that another unit makes and that a unit reads."""
    units = Units(shape)
    made = units.unit(exp, 0)
    read = units.unit(reader, made, constants=constants)
    return units.arranged(read, allowed=allowed).encodings[made]


@pytest.mark.parametrize(
    ("low", "high", "shift"),
    [
        (0, 255, 0),
        (-128, 127, 128),
        (-10, 5, 10),
        (-255, 0, 255),
        # Zeros fill what lies around images: they are among the numbers.
        (3, 7, 0),
        (-9, -3, 9),
    ],
)
def test_integers_lie_in_bytes_shifted_so_that_none_is_negative(
    low: float, high: float, shift: int
) -> None:
    units = Units(IMAGE)
    made = units.unit(in_integers(low, high), 0)
    memory = units.arranged(units.unit(exp, made))
    assert memory.encodings == (None, Encoding("uint8", shift), None)


@pytest.mark.parametrize(
    ("low", "high"), [(-200, 200), (-1, 255), (1, 256), (-300, -200), (0, float("inf"))]
)
def test_more_numbers_than_a_byte_has_lie_as_they_are(low: float, high: float) -> None:
    units = Units(IMAGE)
    made = units.unit(in_integers(low, high), 0)
    assert set(units.arranged(units.unit(exp, made)).encodings) == {None}


def test_integers_without_bounds_and_other_numbers_lie_as_they_are() -> None:
    units = Units(IMAGE)
    without_bounds = units.unit(lambda emit, x: op.round(x), 0)
    others = units.unit(exp, without_bounds)
    memory = units.arranged(units.unit(exp, others), allowed=["uint8"])
    assert set(memory.encodings) == {None}


def test_inputs_and_outputs_lie_as_the_model_has_them() -> None:
    units = Units(IMAGE)
    made = units.unit(in_integers(0, 9), 0)
    read = units.unit(convolution, made, constants=[(8, 8, 1, 1)])
    assert units.arranged(read).encodings == (None, Encoding("uint8"), None)
    assert units.arranged(made, read).encodings == (None, None, None)
    assert read_by(convolution, (8, 8, 1, 1)) == BFLOAT16
    units = Units(IMAGE)
    read = units.unit(convolution, 0, constants=[(8, 8, 1, 1)])
    assert units.arranged(read).encodings == (None, None)


def test_a_number_without_axes_lies_as_it_is() -> None:
    """No kernel reads one encoded."""
    units = Units(())
    made = units.unit(in_integers(0, 9), 0)
    assert set(units.arranged(units.unit(exp, made)).encodings) == {None}


def test_integers_lie_in_bytes_though_a_product_reads_them() -> None:
    units = Units(IMAGE)
    made = units.unit(in_integers(0, 9), 0)
    read = units.unit(convolution, made, constants=[(8, 8, 1, 1)])
    assert units.arranged(read).encodings[made] == Encoding("uint8")
    assert units.arranged(read, allowed=["bfloat16"]).encodings[made] == BFLOAT16
    assert units.arranged(read, allowed=[]).encodings == (None, None, None)


PRODUCTS: Mapping[str, tuple[Callable[..., Any], list[Shape], Shape]] = {
    "convolution": (convolution, [(4, 8, 3, 3)], IMAGE),
    "transposed convolution": (
        lambda emit, x, w: op.nn.conv2d_transpose(x, w),
        [(8, 4, 3, 3)],
        IMAGE,
    ),
    "product": (lambda emit, x, w: op.matmul(x, w), [(8, 7)], ROWS),
    "relu before": (
        lambda emit, x, w: op.nn.conv2d(emit(op.nn.relu(x)), w),
        [(4, 8, 1, 1)],
        IMAGE,
    ),
    "scale, bias and relu before": (
        lambda emit, x, w, scale, bias: op.nn.conv2d(
            emit(op.nn.relu(emit(op.add(emit(op.multiply(x, scale)), bias)))), w
        ),
        [(4, 8, 1, 1), (1, 8, 1, 1), (1, 8, 1, 1)],
        IMAGE,
    ),
    "pool before": (
        lambda emit, x, w: op.nn.conv2d(emit(op.nn.max_pool2d(x, (2, 2))), w),
        [(4, 8, 1, 1)],
        IMAGE,
    ),
    "rows of an image": (
        lambda emit, x, w: op.matmul(emit(op.reshape(x, (1, 288))), w),
        [(288, 7)],
        IMAGE,
    ),
    "residual sum": (
        lambda emit, x, w: op.add(emit(op.nn.conv2d(x, w)), x),
        [(8, 8, 1, 1)],
        IMAGE,
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_a_product_with_constant_weights_reads_lies_in_bfloat16(name: str) -> None:
    body, constants, shape = PRODUCTS[name]
    assert read_by(body, *constants, shape=shape) == BFLOAT16
    assert read_by(body, *constants, shape=shape, allowed=["uint8"]) is None


MOVING: Mapping[str, Callable[..., Any]] = {
    "pool": lambda emit, x: op.nn.max_pool2d(x, (3, 3), padding=1),
    "slice": lambda emit, x: op.strided_slice(x, [2], [0], [4]),
    "transpose": lambda emit, x: op.permute_dims(x, [0, 1, 3, 2]),
    "reshape": lambda emit, x: op.reshape(x, (1, 8, 4, 9)),
    "two of these": lambda emit, x: op.nn.max_pool2d(emit(op.reshape(x, (1, 8, 4, 9))), (2, 2)),
}


@pytest.mark.parametrize("name", MOVING)
def test_what_a_unit_only_moves_to_a_product_lies_in_bfloat16(name: str) -> None:
    units = Units(IMAGE)
    made = units.unit(exp, 0)
    moved = units.unit(MOVING[name], units.unit(MOVING["pool"], made))
    read = units.unit(convolution, moved, constants=[(4, 8, 1, 1)])
    assert units.arranged(read).encodings == (None, BFLOAT16, BFLOAT16, BFLOAT16, None)


def test_what_is_joined_for_a_product_lies_in_bfloat16() -> None:
    units = Units(IMAGE)
    first, second = units.unit(exp, 0), units.unit(exp, 0)
    whole = units.unit(joined, first, second)
    memory = units.arranged(
        units.unit(lambda emit, x, w: op.nn.conv2d(x, w), whole, constants=[(4, 16, 1, 1)])
    )
    assert set(memory.parts) == {first, second}
    assert memory.encodings == (None, BFLOAT16, BFLOAT16, BFLOAT16, None)


NO_PRODUCTS: Mapping[str, tuple[Callable[..., Any], list[Shape], Shape]] = {
    "sum": (lambda emit, x, b: op.add(x, b), [(1, 8, 1, 1)], IMAGE),
    "average": (lambda emit, x: op.nn.avg_pool2d(x, (2, 2)), [], IMAGE),
    "softmax": (lambda emit, x: op.nn.softmax(x), [], ROWS),
    "product with itself": (lambda emit, x: op.matmul(x, x), [], (8, 8)),
    "constant times it": (lambda emit, x, w: op.matmul(w, x), [(7, 5)], ROWS),
    "groups": (convolution, [(8, 2, 3, 3)], IMAGE),
    "depthwise": (convolution, [(8, 1, 3, 3)], IMAGE),
    "softmax before a product": (
        lambda emit, x, w: op.matmul(emit(op.nn.softmax(x)), w),
        [(8, 7)],
        ROWS,
    ),
    "average before a product": (
        lambda emit, x, w: op.nn.conv2d(emit(op.nn.avg_pool2d(x, (2, 2))), w),
        [(4, 8, 1, 1)],
        IMAGE,
    ),
}


@pytest.mark.parametrize("name", NO_PRODUCTS)
def test_what_no_product_with_constant_weights_reads_lies_as_it_is(name: str) -> None:
    body, constants, shape = NO_PRODUCTS[name]
    assert read_by(body, *constants, shape=shape) is None


def test_neither_factor_of_a_product_of_two_computed_tensors_is_rounded() -> None:
    units = Units((1, 5, 8), (1, 7, 8))
    queries, keys = units.unit(exp, 0), units.unit(exp, 1)
    whole = units.unit(
        lambda emit, x, y: op.matmul(x, emit(op.permute_dims(y, [0, 2, 1]))), queries, keys
    )
    assert set(units.arranged(whole).encodings) == {None}


def test_a_sum_of_two_tensors_before_a_product_is_not_of_rounded_ones() -> None:
    units = Units(IMAGE, IMAGE)
    first, second = units.unit(exp, 0), units.unit(exp, 1)
    read = units.unit(
        lambda emit, x, y, w: op.nn.conv2d(emit(op.add(x, y)), w),
        first,
        second,
        constants=[(4, 8, 1, 1)],
    )
    assert set(units.arranged(read).encodings) == {None}


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ((-4, 9), Encoding("uint8", 4)),
        ((-4, 3), Encoding("uint8", 4)),
        ((-3, 9), None),
        ((-200, 200), None),
    ],
)
def test_parts_lie_as_their_whole_or_all_as_they_are(
    second: tuple[float, float], expected: Encoding | None
) -> None:
    units = Units(IMAGE)
    parts = [units.unit(in_integers(*bounds), 0) for bounds in ((-4, 9), second)]
    inner = units.unit(joined, *parts)
    outer = units.unit(joined, inner, units.unit(in_integers(-4, 9), 0))
    memory = units.arranged(units.unit(exp, outer))
    assert len(memory.parts) == 4
    assert set(memory.encodings[1:6]) == {expected}


def test_a_part_that_is_an_output_keeps_what_it_lies_in_as_it_is() -> None:
    units = Units(IMAGE)
    parts = [units.unit(in_integers(0, 9), 0) for _ in range(2)]
    whole = units.unit(joined, *parts)
    other = units.unit(exp, whole)
    assert len(units.arranged(other).parts) == 2
    for outputs in ((other, parts[0]), (other, whole)):
        memory = units.arranged(*outputs)
        for part, place in memory.parts.items():
            assert memory.encodings[part] == memory.encodings[place.of]
        assert all(memory.encodings[t] is None for t in outputs)


def test_a_unit_is_told_how_its_data_and_then_its_results_lie() -> None:
    units = Units(IMAGE, IMAGE)
    made = units.unit(in_integers(-4, 9), 0)
    summed = units.unit(lambda emit, x, y: op.add(x, y), made, 1)
    last = units.unit(exp, summed)
    memory = units.arranged(last)
    sources = [
        memory.source(function, operator.inputs, operator.outputs)
        for function, operator in zip(units.functions, units.operators, strict=True)
    ]
    in_bytes = Encoding("uint8", 4)
    assert [s.encodings for s in sources] == [(None, in_bytes), (in_bytes, None, None), ()]


def drawn(seed: int, allowed: Collection[str]) -> tuple[Units, tuple[int, ...], Arrangement]:
    """Random units, the outputs of their graph, and how its tensors lie."""
    rng = random.Random(seed)
    units = Units((1, 4, 3, 3))
    bodies = [
        in_integers(0, 255),
        in_integers(-4, 9),
        in_integers(-300, 9),
        exp,
        lambda emit, x: op.nn.relu(x),
        lambda emit, x: op.nn.max_pool2d(x, (3, 3), padding=1),
        joined,
        joined,
        joined,
        lambda emit, x, w: op.nn.conv2d(x, w),
    ]
    for _ in range(rng.randint(3, 12)):
        body, recent = rng.choice(bodies), range(len(units.tensors))[-5:]
        inputs = rng.sample(recent, min(len(recent), rng.randint(1, 3) if body is joined else 1))
        channels = units.tensors[inputs[0]].shape[1]
        constants = [(rng.randint(1, 6), channels, 1, 1)] if body is bodies[-1] else []
        units.unit(body, *inputs, constants=constants)
    read = {t for operator in units.operators for t in operator.inputs}
    made = range(1, len(units.tensors))
    outputs = tuple(t for t in made if t not in read or rng.random() < 0.1)
    return units, outputs, units.arranged(*outputs, allowed=allowed)


@examples(100)
@given(st.integers(0, 10**9), st.sets(st.sampled_from(BOTH)))
def test_whatever_the_units_each_tensor_fits_how_it_lies(seed: int, allowed: set[str]) -> None:
    units, outputs, memory = drawn(seed, allowed)
    assert all(memory.encodings[t] is None for t in (*units.inputs, *outputs))
    for part, place in memory.parts.items():
        assert memory.encodings[part] == memory.encodings[place.of]
    for encoding, bounds in zip(memory.encodings, memory.integers, strict=True):
        assert encoding is None or encoding.numbers in allowed
        if encoding is not None and encoding.numbers == "uint8":
            assert bounds is not None
            assert bounds[0] + encoding.shift >= 0
            assert bounds[1] + encoding.shift <= 255


def test_random_units_do_have_encoded_tensors_and_parts() -> None:
    """Or the test above would show nothing."""
    counts = dict.fromkeys(BOTH, 0)
    parts = 0
    for seed in range(200):
        _, _, memory = drawn(seed, BOTH)
        for encoding in memory.encodings:
            if encoding is not None:
                counts[encoding.numbers] += 1
        parts += sum(memory.encodings[part] is not None for part in memory.parts)
    assert min(*counts.values(), parts) > 10


def test_the_integers_of_a_quantised_model_lie_in_bytes(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = onnx.load(models()["static, Q/DQ, per channel"](tmp_path))
    prepared = prepare(import_onnx(simplify(model)), "quantised")
    graph, outliner = prepared.units, prepared.outliner
    memory = arrange(graph, [outliner.unit(u).function for u in range(len(graph))], ["uint8"])
    small = {t for t, b in enumerate(memory.integers) if b is not None and b[1] - b[0] <= 255}
    encoded = {t for t, encoding in enumerate(memory.encodings) if encoding is not None}
    assert len(memory.parts) == 2
    assert encoded == small - {*graph.outputs}
    assert {*memory.parts} < encoded
