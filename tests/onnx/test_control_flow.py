"""Control flow and sequences that are known beforehand become the operators that they run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser

from tests.onnx.random_control_flow import random_program
from tests.onnx_sketch import kinds, relative_error, run_on
from tests.refusals import refused
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.rewrites.control import bodies
from tvm_ios.onnx.simplify import simplify
from tvm_ios.onnx.supported import require_supported

GONE = {"If", "Loop", "Scan", "Identity", "SequenceAt", "SequenceConstruct", "SequenceInsert"}

#: Models by name: the body of a graph that reads ``x``, float[3, 4], and makes ``y``.
KNOWN = {
    "a branch of a constant condition": """
        c = Constant <value = bool {0}> ()
        y = If (c) <then_branch = a () => (float[3, 4] t) {t = Relu (x)},
                    else_branch = b () => (float[3, 4] t) {n = Neg (x) t = Exp (n)}>
    """,
    "a condition that shapes decide": """
        s = Shape (x)
        three = Constant <value = int64[2] {3, 4}> ()
        e = Equal (s, three)
        i = Cast <to = 6> (e)
        m = ReduceMin <keepdims = 0> (i)
        c = Cast <to = 9> (m)
        y = If (c) <then_branch = a () => (float[3, 4] t) {t = Relu (x)},
                    else_branch = b () => (float[2] t) {t = Constant <value_floats = [1.0]> ()}>
    """,
    "a condition that is computed": """
        m = ReduceMax <keepdims = 1> (x)
        k = Constant <value = float {1.5}> ()
        g = Greater (m, k)
        flat = Constant <value = int64[1] {1}> ()
        c = Reshape (g, flat)
        y = If (c) <then_branch = a () => (float[3, 4] t) {t = Relu (x)},
                    else_branch = b () => (float[3, 4] u) {t = Exp (x) u = Div (t, k)}>
    """,
    "steps that carry and stack": """
        n = Constant <value = int64 {5}> ()
        true = Constant <value = bool {1}> ()
        w = Constant <value_float = 0.5> ()
        last, rows = Loop (n, true, x) <body = step (int64 i, bool c, float[3, 4] before)
            => (bool same, float[3, 4] after, float[3, 4] row) {
                same = Identity (c)
                f = Cast <to = 1> (i)
                g = Mul (before, w)
                after = Add (g, f)
                row = Mul (after, x)
            }>
        s = ReduceSum <keepdims = 0> (rows, zero)
        y = Add (last, s)
    """,
    "a state that grows": """
        n = Constant <value = int64 {3}> ()
        true = Constant <value = bool {1}> ()
        grown = Loop (n, true, x) <body = step (int64 i, bool c, float[rows, 4] before)
            => (bool same, float[more, 4] after) {
                same = Identity (c)
                t = Tanh (before)
                after = Concat <axis = 0> (t, x)
            }>
        y = ReduceSum <keepdims = 1> (grown, zero)
    """,
    "steps until a counter says so": """
        zeroth = Constant <value = int64 {0}> ()
        two = Constant <value = int64 {2}> ()
        limit = Constant <value = int64 {7}> ()
        true = Constant <value = bool {1}> ()
        end, y = Loop ("", true, zeroth, x) <body = step (int64 i, bool c, int64 k, float[3, 4] b)
            => (bool goes, int64 next, float[3, 4] a) {
                next = Add (k, two)
                goes = Less (next, limit)
                a = Sin (b)
            }>
    """,
    "a loop in a loop, and a branch by its number": """
        n = Constant <value = int64 {3}> ()
        m = Constant <value = int64 {2}> ()
        true = Constant <value = bool {1}> ()
        y = Loop (n, true, x) <body = outer (int64 i, bool c, float[3, 4] b)
            => (bool same, float[3, 4] a) {
                same = Identity (c)
                e = Equal (i, m)
                d = If (e) <then_branch = p () => (float[3, 4] t) {t = Relu (b)},
                            else_branch = q () => (float[3, 4] t) {t = Cos (b)}>
                a = Loop (m, c, d) <body = inner (int64 j, bool k, float[3, 4] u)
                    => (bool l, float[3, 4] v) {
                        l = Identity (k)
                        s = Add (i, j)
                        f = Cast <to = 1> (s)
                        g = Mul (u, b)
                        v = Add (g, f)
                    }>
            }>
    """,
    "a loop that runs no step": """
        n = Constant <value = int64 {0}> ()
        r = Loop (n, "", x) <body = step (int64 i, bool c, float[3, 4] b) => (bool s, float[3, 4] a)
            {s = Identity (c) a = Neg (b)}>
        y = Neg (r)
    """,
    "a loop that runs no step and stacks what nothing reads": """
        n = Constant <value = int64 {0}> ()
        r, unread = Loop (n, "", x) <body = step (int64 i, bool c, float[3, 4] b)
            => (bool s, float[3, 4] a, float[k] row)
            {s = Identity (c) a = Neg (b) row = Unique (b)}>
        y = Neg (r)
    """,
    "a scan by rows and by columns, backwards": """
        start = Constant <value_floats = [1.0, 2.0, 3.0]> ()
        other = Transpose <perm = [1, 0]> (x)
        last, out = Scan <num_scan_inputs = 2, scan_input_axes = [-1, 0],
            scan_input_directions = [1, 0], scan_output_axes = [-1], scan_output_directions = [1],
            body = step (float[3] before, float[3] column, float[3] row)
                => (float[3] after, float[3] made) {
                    s = Add (before, column)
                    after = Tanh (s)
                    made = Mul (after, row)
                }> (start, x, other)
        l = Unsqueeze (last, one)
        y = Add (out, l)
    """,
    "a list that a loop fills": """
        n = Constant <value = int64 {3}> ()
        true = Constant <value = bool {1}> ()
        none = SequenceEmpty ()
        rows = Loop (n, true, none) <body = step (int64 i, bool c, seq(float[4]) before)
            => (bool same, seq(float[4]) after) {
                same = Identity (c)
                row = Gather <axis = 0> (x, i)
                e = Exp (row)
                after = SequenceInsert (before, e)
            }>
        y = ConcatFromSequence <axis = 1, new_axis = 1> (rows)
    """,
    "parts of a tensor, some of them": """
        size = Constant <value = int64 {3}> ()
        back = Constant <value = int64 {-1}> ()
        first = Constant <value = int64 {0}> ()
        parts = SplitToSequence <axis = 1> (x, size)
        small = SequenceAt (parts, back)
        more = SequenceInsert (parts, small, first)
        fewer = SequenceErase (more)
        count = SequenceLength (fewer)
        f = Cast <to = 1> (count)
        c = ConcatFromSequence <axis = 1> (fewer)
        y = Mul (c, f)
    """,
    "rows by themselves": """
        rows = SplitToSequence <keepdims = 0> (x)
        mapped = SequenceMap (rows, x) <body = one (float[4] row, float[3, 4] all)
            => (float[3, 4] sum) {sum = Add (all, row)}>
        y = ConcatFromSequence <axis = 0> (mapped)
    """,
}


def model(text: str, opset: int = 17, inputs: str = "float[3, 4] x") -> Any:
    return parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : {opset}]>
        drawn ({inputs}) => (y)
        <int64[1] zero = {{0}}, int64[1] one = {{1}}>
        {{ {text} }}
    """)


def require_same(original: Any, values: Any) -> Any:
    simple = simplify(original)
    require_supported("drawn", simple)
    for value in values:
        (expected,), (output,) = run_on(original, {"x": value}), run_on(simple, {"x": value})
        assert relative_error([output], [expected]) <= 1e-6
    return simple


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_is_written_out(name: str) -> None:
    rng = np.random.default_rng(0)
    values = [scale * rng.standard_normal((3, 4)).astype(np.float32) for scale in (0.1, 3.0)]
    simple = require_same(model(KNOWN[name]), values)
    assert not {*kinds(simple)} & GONE


def test_declared_results_say_how_many_steps_there_are() -> None:
    drawn = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        drawn (float[4] x, int64 n, bool yes) => (float[4] y, float[3, 4] rows) {
            y, rows = Loop (n, yes, x) <body = step (int64 i, bool c, float[4] b)
                => (bool same, float[4] a, float[4] row) {
                    same = Identity (c)
                    a = Sin (b)
                    row = Neg (a)
                }>
        }
    """)
    simple = simplify(drawn)
    assert not {*kinds(simple)} & GONE
    feeds = {"x": np.arange(4, dtype=np.float32), "n": np.array(3), "yes": np.array(True)}
    assert relative_error(run_on(simple, feeds), run_on(drawn, feeds)) <= 1e-6


def test_a_scan_of_opset_8_has_a_batch() -> None:
    text = """
        start = Constant <value = float[2, 4] {1, 2, 3, 4, 5, 6, 7, 8}> ()
        last, y = Scan <num_scan_inputs = 1, directions = [1], body = step
            (float[4] before, float[4] row) => (float[4] after, float[4] made) {
                after = Add (before, row)
                made = Tanh (after)
            }> ("", start, x)
    """
    rng = np.random.default_rng(0)
    original = model(text, 8, "float[2, 3, 4] x")
    require_same(original, [rng.standard_normal((2, 3, 4)).astype(np.float32)])


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 400), marks=pytest.mark.slow)])
def test_random_programs_are_written_out(seeds: range) -> None:
    for seed in seeds:
        original = random_program(seed)
        simple = simplify(original)
        assert not {*kinds(simple)} & GONE, seed
        value = np.random.default_rng(seed).standard_normal((3, 4)).astype(np.float32)
        results = zip(run_on(simple, {"x": value}), run_on(original, {"x": value}), strict=True)
        for output, expected in results:
            np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5, err_msg=f"{seed}")


UNKNOWN = {
    "as many steps as the data say": """
        m = ReduceMax <keepdims = 0> (x)
        n = Cast <to = 7> (m)
        y = Loop (n, "", x) <body = step (int64 i, bool c, float[3, 4] b) => (bool s, float[3, 4] a)
            {s = Identity (c) a = Neg (b)}>
    """,
    "steps until the data say so": """
        true = Constant <value = bool {1}> ()
        two = Constant <value = float {2}> ()
        y = Loop ("", true, x) <body = step (int64 i, bool c, float[3, 4] b)
            => (bool s, float[3, 4] a) {
                a = Mul (b, two)
                m = ReduceMax <keepdims = 0> (a)
                s = Less (m, two)
            }>
    """,
    "a quotient of integers that may be by zero": """
        i = Cast <to = 7> (x)
        m = ReduceMax <keepdims = 0> (i)
        nothing = Constant <value = int64 {0}> ()
        c = Greater (m, nothing)
        d = If (c) <then_branch = a () => (int64[3, 4] t) {t = Div (i, m)},
                    else_branch = b () => (int64[3, 4] t) {t = Neg (i)}>
        y = Cast <to = 1> (d)
    """,
    "an item that may not be there": """
        i = Cast <to = 7> (x)
        m = ReduceMax <keepdims = 0> (i)
        two = Constant <value = int64 {2}> ()
        c = Less (m, two)
        y = If (c) <then_branch = a () => (float[4] t) {t = Gather (x, m)},
                    else_branch = b () => (float[4] t) {t = ReduceSum <keepdims = 0> (x, zero)}>
    """,
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_the_data_decide_is_refused(name: str) -> None:
    simple = simplify(model(UNKNOWN[name]))
    with refused(GraphError, "Loop" if "steps" in name else "If", "drawn", "control flow"):
        require_supported("drawn", simple)


def test_too_many_steps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LARGEST", 20)
    with refused(GraphError, "Loop", "20", "steps"):
        simplify(model(KNOWN["steps that carry and stack"]))


def test_an_item_that_is_not_there_is_refused() -> None:
    text = """
        five = Constant <value = int64 {5}> ()
        items = SequenceConstruct (x, x)
        y = SequenceAt (items, five)
    """
    with refused(GraphError, "SequenceAt", "5", "2"):
        simplify(model(text))
