"""What depends on the data is cut off a model, and together both parts compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

from tests.onnx_sketch import kinds, run_on
from tests.refusals import refused, require_names
from tvm_ios.errors import UserError
from tvm_ios.graph.elements import GraphError
from tvm_ios.models.load import SimplifiedModel, load_graph, read_model, simplified
from tvm_ios.models.source import ModelSource

FEEDS = {"x": np.arange(-6, 6, dtype=np.float32).reshape(3, 4), "k": np.array([2])}

#: By name: the operators, the outputs, and the kinds of operators in the tail.
TAILS: dict[str, tuple[str, str, set[str]]] = {
    "places": ("a = Neg (x) y = NonZero (a)", "int64[2, n] y", {"NonZero"}),
    "a model's output from before": (
        "a = Neg (x) b = Exp (a) p = NonZero (a) t = Transpose (p) y = GatherND (b, t)",
        "float[3, 4] b, float[n] y",
        {"NonZero", "Transpose", "GatherND"},
    ),
    "an input that only the tail reads": (
        "a = Exp (x) y, i = TopK <axis = 1> (a, k)",
        "float[3, n] y, int64[3, n] i",
        {"TopK"},
    ),
    "an input that both read": (
        "a = Neg (x) p = NonZero (a) t = Transpose (p) y = GatherND (x, t)",
        "float[n] y, float[3, 4] a",
        {"NonZero", "Transpose", "GatherND"},
    ),
    "a weight that both read": (
        "a = Mul (x, w) p = Unique (a) y = Mul (p, w)",
        "float[n] y",
        {"Unique", "Mul"},
    ),
    "a loop that the data end": (
        """a = Exp (x) m = ReduceMax <keepdims = 0> (a)
        y = Loop ("", yes, a) <body = step (int64 i, bool c, float[3, 4] b)
            => (bool goes, float[3, 4] h) {
                h = Mul (b, w)
                n = ReduceMin <keepdims = 0> (h)
                goes = Less (n, m)
            }>""",
        "float[3, 4] y",
        {"Loop"},
    ),
    "numbers up to a computed one": (
        """m = ReduceSum <keepdims = 0> (x) s = Cast <to = 7> (m) n = Neg (s)
        y = Range (zero, n, one)""",
        "int64[n] y",
        {"Range"},
    ),
}


def model(text: str, outputs: str) -> Any:
    drawn = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        drawn (float[3, 4] x, int64[1] k) => ({outputs})
        <float w = {{2}}, int64 zero = {{0}}, int64 one = {{1}}, bool yes = {{1}}>
        {{ {text} }}
    """)
    return onnx.shape_inference.infer_shapes(drawn)


def cut(original: Any, folder: Path) -> SimplifiedModel:
    path = folder / "drawn.onnx"
    onnx.save(original, str(path))
    source = ModelSource(str(path))
    return simplified(source, read_model(source))


@pytest.mark.parametrize("name", TAILS)
def test_both_parts_together_are_the_model(name: str, tmp_path: Path) -> None:
    text, outputs, late = TAILS[name]
    original = model(text, outputs)
    parts = cut(original, tmp_path)
    assert parts.tail is not None
    assert {*kinds(parts.tail.model)} == late
    for before in (parts.model, parts.written):
        made = dict(zip([o.name for o in before.graph.output], run_on(before, FEEDS), strict=True))
        # Only what the program does not make is left to the tail.
        assert {*parts.tail.reads} <= made.keys() | FEEDS.keys()
        feeds = {name: {**FEEDS, **made}[name] for name in parts.tail.reads}
        reference: Any = ReferenceEvaluator(parts.tail.model)
        for results in (run_on(parts.tail.model, feeds), reference.run(None, feeds)):
            for result, expected in zip(results, run_on(original, FEEDS), strict=True):
                assert result.dtype == expected.dtype
                np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("is_installed", "runtime"), [(True, "ONNX Runtime"), (False, "reference")]
)
def test_the_sentence_says_what_runs_where(
    is_installed: bool, runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tvm_ios.onnx.tail.find_spec", lambda _: is_installed or None)
    tail = cut(model(*TAILS["a model's output from before"][:2]), tmp_path).tail
    assert tail is not None
    require_names(tail.sentence, "3", "NonZero", runtime)


def test_a_count_that_is_an_attribute_is_known(tmp_path: Path) -> None:
    """Before opset 10 ``TopK`` has no second input."""
    drawn = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 9]>
        drawn (float[3, 4] x) => (float[3, 2] y, int64[3, 2] i) { y, i = TopK <k = 2> (x) }
    """)
    assert cut(drawn, tmp_path).tail is None


def test_the_graph_is_that_of_what_is_before(tmp_path: Path) -> None:
    path = tmp_path / "drawn.onnx"
    onnx.save(model(*TAILS["places"][:2]), str(path))
    assert [operator.kind for operator in load_graph(path).operators] == ["neg"]


REFUSED = {
    "nothing is before it": ("p = NonZero (x) y = Neg (p)", ("NonZero", "nothing")),
    "a loop is all": (
        """y = Loop (k, "", x) <body = step (int64 i, bool c, float[3, 4] b)
            => (bool s, float[3, 4] a) {s = Identity (c) a = Neg (b)}>""",
        ("Loop", "control flow", "nothing"),
    ),
    "branches differ": (
        """m = ReduceMax <keepdims = 0> (x) c = Cast <to = 9> (m)
        r = If (c) <then_branch = one () => (float[3, 4] a) {a = Neg (x)},
            else_branch = other () => (float[6, 4] b) {b = Concat <axis = 0> (x, x)}>
        t = Transpose (r) p = MatMul (t, r) y = MatMul (r, p)""",
        ("If", "3,4", "6,4", "model of its own"),
    ),
    "shapes do not go together": (
        "t = Concat <axis = 1> (x, x) r = Relu (t) y = Add (r, x)",
        ("Add", "3,8", "3,4", "other shapes"),
    ),
    "most comes after it": (
        """m = ReduceMax <keepdims = 0, axes = [1]> (x) rows = Cast <to = 9> (m)
        c = Compress <axis = 0> (x, rows) t = Transpose (c) p = MatMul (c, t) y = MatMul (p, c)""",
        ("Compress", "2", "after"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, tmp_path: Path) -> None:
    text, words = REFUSED[name]
    with refused(GraphError, *words):
        cut(model(text, "float[n, m] y"), tmp_path)


def test_sentences_name_no_path(tmp_path: Path) -> None:
    original = model("p = NonZero (x) y = Neg (p)", "int64[2, n] y")
    with pytest.raises(UserError) as error:
        cut(original, tmp_path)
    assert str(tmp_path) not in str(error.value)


@pytest.mark.parametrize(
    ("inputs", "outputs", "text", "words"),
    [
        (
            "float[3, 4] x",
            "seq(float[3, 4]) y",
            "y = SequenceConstruct (x)",
            ("output", "sequence"),
        ),
        ("seq(float[4]) x", "float[4] y", "y = SequenceAt (x, zero)", ("input", "sequence")),
        ("float[4] x", "optional(float[4]) y", "y = Optional (x)", ("output", "optional")),
        ("float[4] x", "string[4] y", "y = Cast <to = 8> (x)", ("output", "ONNX Runtime")),
    ],
)
def test_only_tensors_of_numbers_go_in_and_out(
    inputs: str, outputs: str, text: str, words: Sequence[str], tmp_path: Path
) -> None:
    drawn = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        drawn ({inputs}) => ({outputs}) <int64 zero = {{0}}> {{ {text} }}
    """)
    with refused(GraphError, "drawn", *words):
        cut(drawn, tmp_path)
