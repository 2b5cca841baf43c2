"""One graph for a range of shapes: as the graphs at single shapes, number for number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dynamic_models.dynamic import bert, unet
from tests.fast_run import examples
from tests.refusals import refused
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.open_graph import difference, open_graph
from tvm_ios.models.load import load_operators
from tvm_ios.models.open_model import open_operators
from tvm_ios.models.source import ModelSource
from tvm_ios.shapes.extent import OpenExtentError, Symbol, evaluate, extent_of
from tvm_ios.shapes.fitting import AmbiguousError, Fitting
from tvm_ios.shapes.input_shapes import InputShapeError
from tvm_ios.shapes.ranges import Range, open_shapes, parse_ranges, shapes_at

B = extent_of(Symbol("batch", 1, 32, hint=7))
L = extent_of(Symbol("length", 1, 512, hint=29))
POINTS = [
    {"batch": batch, "length": length}
    for batch, length in ((7, 29), (3, 17), (9, 40), (5, 22), (11, 35), (4, 19), (8, 24))
]

#: Its table of expressions is made once.
FITTING = Fitting([B, L], POINTS)


@examples(100)
@given(
    st.sampled_from(
        [
            lambda b, n: b,
            lambda b, n: b * n,
            lambda b, n: n * n,
            lambda b, n: b * n * n,
            lambda b, n: b + n,
            lambda b, n: (n + 1) // 2,
            lambda b, n: (n + 3) // 4 * b,
            lambda b, n: (n // 2) * (n // 2),
        ]
    ),
    st.integers(-9, 9).filter(bool),
    st.integers(-9, 9),
)
def test_numbers_become_the_expression_that_they_are(
    value: Callable[[Any, Any], Any], factor: int, added: int
) -> None:
    numbers = [value(p["batch"], p["length"]) * factor + added for p in POINTS]
    assert FITTING.fit(numbers) == value(B, L) * factor + added


@given(st.lists(st.tuples(st.integers(1, 10), st.integers(1, 5)), min_size=2, max_size=5))
def test_strides_after_one_another_have_expressions(strides: list[tuple[int, int]]) -> None:
    samples = extent_of(Symbol("samples", 400, 16_000, 1_000))
    points = [{"samples": n} for n in (1_000, 2_311, 3_001, 3_333, 2_717, 1_403, 3_871, 2_048)]
    fitting, numbers, extent = Fitting([samples], points), [p["samples"] for p in points], samples
    for kernel, stride in strides:
        numbers = [(n - kernel) // stride + 1 for n in numbers]
        extent = (extent - kernel) // stride + 1
        if len(set(numbers)) < len(numbers) or numbers[0] < kernel:
            break
        try:
            fitted = fitting.fit(numbers)
        except AmbiguousError:
            # More shapes would tell them apart.
            break
        assert fitted is not None
        assert [evaluate(fitted, point) for point in points] == numbers
        assert evaluate(fitted, {"samples": 15_999}) == evaluate(extent, {"samples": 15_999})


def test_what_is_no_expression_or_several_is_said() -> None:
    fitting = Fitting([B, L], POINTS)
    assert fitting.fit([5] * len(POINTS)) == 5
    assert fitting.fit([1, 2, 4, 8, 16, 32, 64]) is None
    # The length is twice the batch plus one at all these shapes.
    collinear = [{"batch": b, "length": 2 * b + 1} for b in (3, 5, 9)]
    with refused(AmbiguousError, "batch", "length"):
        Fitting([B, L], collinear).fit([7, 11, 19])


def test_windows_of_a_step_are_told_in_steps() -> None:
    steps = extent_of(Symbol("steps", 7, 1000, hint=9))
    samples = [steps * 160 + 32, B]
    points = [{"steps": n, "batch": b} for n, b in ((9, 7), (34, 3), (8, 9), (21, 5), (40, 11))]
    assert Fitting(samples, points).fit([p["steps"] - 2 for p in points]) == steps - 2
    assert Fitting(samples, points).fit([p["steps"] * p["batch"] for p in points]) == steps * B


def test_extents_are_named_in_order() -> None:
    declared: Mapping[str, Any] = {"image": ("batch", 3, "width"), "mask": ("batch", "width")}
    shapes = open_shapes(parse_ranges(["image:1..8,3,64..1024:8"]), declared)
    assert shapes_at(shapes, (2, 104)) == {"image": (2, 3, 104), "mask": (2, 104)}
    for wrong, named in (((2,), "1..8 and 64..1024:8"), ((2, 101), "101"), ((9, 64), "1..8")):
        with refused(InputShapeError, named):
            shapes_at(shapes, wrong)


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        ("ids:1..32,1..512", (Range(1, 32), Range(1, 512))),
        ("input:0:2,64..1024:32", (2, Range(64, 1024, 32))),
        ("image:1,3,64..1024:32,7..7", (1, 3, Range(64, 1024, 32), 7)),
    ],
)
def test_ranges_are_read(text: str, extents: tuple[int | Range, ...]) -> None:
    assert list(parse_ranges([text]).values()) == [extents]


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        (["ids:1..,4"], "ids:1..,4"),
        (["ids:4..1"], "4..1"),
        (["ids:0..4"], "0..4"),
        (["ids:1..4:0"], "1..4"),
        (["ids:1..4", "ids:2"], "ids"),
    ],
)
def test_what_is_no_range_is_refused(texts: list[str], named: str) -> None:
    with refused(InputShapeError, named):
        parse_ranges(texts)


def test_dimensions_of_one_name_are_one_symbol() -> None:
    declared = {"ids": ["batch", "length"], "mask": ["batch", "length"], "image": ["unk__7", 3]}
    shapes = open_shapes(parse_ranges(["ids:1..32,8..64:8", "image:1..4,3"]), declared)
    assert shapes["mask"] == shapes["ids"]
    assert str(shapes["ids"]) == "(batch, 8*(length/8))"
    assert str(shapes["image"]) == "(image.0, 3)"
    assert str(open_shapes({"ids": (2, Range(65, 129, 32))}, declared)["ids"]) == (
        "(2, 1+32*(length/32))"
    )


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        (["words:1..4"], "words"),
        (["ids:1..4"], "ids"),
        (["image:1..4,5"], "image"),
        (["ids:1..4,1..8", "mask:1..4,1..9"], "length"),
    ],
)
def test_ranges_have_to_fit_the_inputs(texts: list[str], named: str) -> None:
    declared = {"ids": ["batch", "length"], "mask": ["batch", "length"], "image": [None, 3]}
    with refused(InputShapeError, named):
        open_shapes(parse_ranges(texts), declared)


@pytest.mark.parametrize(
    ("build", "text", "expression"),
    [
        (bert, "input_ids:1..32,1..32", "sequence"),
        (unet, "image:1,3,64..1024:8,64..1024:32", "4*(height/8)"),
        (unet, "image:1,3,64..1024,64..1024", "width//4"),
    ],
)
def test_graphs_at_other_shapes_agree(
    build: Callable[[], Any], text: str, expression: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(build(), path)
    ranges = parse_ranges([text])
    opened = open_operators(str(path), ranges)
    assert expression in {str(extent) for shape in opened.shapes for extent in shape}
    random = Random(1)
    for _ in range(3):
        point = {s.name: random.randint(max(s.least, 2), s.most) for s in opened.symbols}
        inputs = zip(opened.graph.inputs, strict=True)
        shapes = {
            opened.graph.tensors[t].name: tuple(evaluate(e, point) for e in opened.shapes[t])
            for (t,) in inputs
        }
        assert (
            difference(opened, load_operators(ModelSource(str(path), shapes=shapes)), point) is None
        )


def recurrent(**attributes: Any) -> onnx.ModelProto:
    """An LSTM over a sequence of any length."""
    weights = [
        onnx.numpy_helper.from_array(np.full((1, 16, 4), 0.1, np.float32), name) for name in "wr"
    ]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4, **attributes)],
        "recurrent",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["length", 1, 4])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        weights,
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])


def test_where_the_number_of_operators_depends_on_the_shape(tmp_path: Path) -> None:
    path = tmp_path / "recurrent.onnx"
    # A layer whose gates are clipped becomes a cell for each step.
    onnx.save(recurrent(clip=1.0), path)
    with refused(OpenExtentError, "length = ", "the range has no one graph"):
        open_operators(str(path), parse_ranges(["x:2..20,1,4"]))


def test_a_recurrent_layer_is_one_operator_at_any_length(tmp_path: Path) -> None:
    path = tmp_path / "recurrent.onnx"
    onnx.save(recurrent(), path)
    opened = open_operators(str(path), parse_ranges(["x:2..20,1,4"]))
    assert [op.kind for op in opened.graph.operators].count("recurrence") == 1


def chain(shape: tuple[int, ...], kinds: list[str], attr: object) -> OpGraph:
    """A chain of operators on a tensor of this shape."""
    tensors = tuple(Tensor(f"t{n}", shape) for n in range(len(kinds) + 1))
    operators = tuple(
        Operator(f"op{n}", kind, (n,), (n + 1,), {"attr": attr}) for n, kind in enumerate(kinds)
    )
    return OpGraph("chain", operators, tensors, (0,), (len(kinds),))


def opened_chain(read: Callable[[int], OpGraph]) -> Any:
    """The open graph of what is read for a length."""

    def at(shapes: Mapping[str, tuple[int, ...]]) -> OpGraph:
        return read(shapes["x"][0])

    return open_graph(at, {"x": (L,)})


def test_constants_of_which_a_shape_has_a_part() -> None:
    positions = tuple(range(600))
    opened = opened_chain(lambda n: chain((n,), ["add"], positions[:n]))
    leading = opened.attrs[0]["attr"]
    assert str(leading.count) == "length"
    assert leading.values == positions[: len(leading.values)]
    with refused(OpenExtentError, "op0", "constant"):
        opened_chain(lambda n: chain((n,), ["add"], tuple(range(n, 2 * n))))


def test_shapes_are_tried_that_tell_expressions_apart() -> None:
    for added in range(8):
        opened = opened_chain(lambda n, added=added: chain(((n + added) // 8 + 1,), ["relu"], 1))
        assert opened.shapes[0][0] == (L + added) // 8 + 1


@pytest.mark.parametrize("window", [400, 513, 559, 560])
def test_windows_of_any_number_of_samples_are_told_apart(window: int) -> None:
    samples = extent_of(Symbol("samples", 1_280, 16_000, hint=1_600))

    def read(shapes: Mapping[str, tuple[int, ...]]) -> OpGraph:
        return chain(((shapes["x"][0] - window) // 160 + 1,), ["conv2d"], 1)

    opened = open_graph(read, {"x": (samples,)})
    assert opened.shapes[0][0] == (samples - window) // 160 + 1


def test_what_differs_is_named() -> None:
    with refused(OpenExtentError, "op0", "exp", "relu"):
        opened_chain(lambda n: chain((n,), ["relu" if n < 30 else "exp"], 1))
    with refused(OpenExtentError, "op0"):
        opened_chain(lambda n: chain((n,), ["relu"], 1 if n < 30 else "b"))
    with refused(OpenExtentError, "t0"):
        opened_chain(lambda n: chain((n * n % 17 + 1,), ["relu"], 1))
    special = opened_chain(lambda n: chain((n,), ["relu" if n > 1 else "exp"], 1)).special
    assert [dict(point) for point, _ in special] == [{"length": 1}]


def test_outputs_that_are_constant_at_small_shapes_only_are_refused() -> None:
    length = extent_of(Symbol("length", 1024, 160_000, hint=1024))

    def read(shapes: Mapping[str, tuple[int, ...]]) -> OpGraph:
        frames = (shapes["x"][0] - 512) // 8000 + 1
        tensors = (Tensor("x", shapes["x"]), Tensor("y", (frames,)))
        operators = (Operator("op", "windows", (0,), (1,), {}),)
        return OpGraph("windows", operators, tensors, (0,), (1,))

    with refused(OpenExtentError, "length = 160000", "outputs"):
        open_graph(read, {"x": (length,)})
