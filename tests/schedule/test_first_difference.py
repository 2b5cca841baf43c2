"""A schedule for another graph is refused by the first thing that differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.graph_sketch import GraphSketch, graphs
from tests.refusals import refused
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.first_difference import describe, first_difference
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import sequential_stages


def network(kernel: int = 3, last: str = "relu", side: int = 0, inputs: int = 1) -> OpGraph:
    sketch = GraphSketch(inputs)
    first = sketch.conv(0, kernel)
    second = sketch.op("tanh", first, axis=1)
    return sketch.graph(sketch.op("add", second, (first, second, 0)[side]), sketch.op(last, second))


def of(graph: OpGraph) -> Schedule:
    """A schedule of a graph, as read from a file."""
    schedule = Schedule(graph.fingerprint, sequential_stages(graph), "by hand")
    return Schedule.from_json(json.loads(json.dumps(schedule.to_json(graph))))


def changed(graph: OpGraph, unit: int, **changes: Any) -> OpGraph:
    operators = list(graph.operators)
    operators[unit] = replace(operators[unit], **changes)
    return replace(graph, operators=tuple(operators))


CASES: dict[str, tuple[Callable[[OpGraph], OpGraph], str]] = {
    "operator": (
        lambda g: network(last="exp"),
        "unit 4 ('exp4') is exp, there relu",
    ),
    "shape": (
        lambda g: network(kernel=5),
        "unit 0 ('conv2d0') has input type 1 float32[4, 4, 5, 5], there float32[4, 4, 3, 3]",
    ),
    "edge": (
        lambda g: network(side=2),
        "unit 3 ('add3') reads unit 2, input 0, there unit 2, unit 1",
    ),
    "attribute": (
        lambda g: changed(g, 2, attrs={"axis": 2}),
        "unit 2 ('tanh2') has axis 2, there 1",
    ),
    "no attribute": (
        lambda g: changed(g, 2, attrs={}),
        "unit 2 ('tanh2') has axis no such attribute, there 1",
    ),
    "inputs": (
        lambda g: network(inputs=2),
        "its inputs are float32[1, 4, 8, 8], float32[1, 4, 8, 8], there float32[1, 4, 8, 8]",
    ),
    "outputs": (
        lambda g: replace(g, outputs=g.outputs[:1]),
        "its outputs are unit 3, there unit 3, unit 4",
    ),
    "units": (
        lambda g: replace(g, operators=g.operators[:4], outputs=g.outputs[:1]),
        "it has 4 units, there 5",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_first_difference_is_named(case: str) -> None:
    change, difference = CASES[case]
    made_for = network()
    other = change(made_for)
    with pytest.raises(ScheduleError) as caught:
        of(made_for).validate(other)
    assert str(caught.value) == (
        f"the schedule was made for another graph than sketch: {difference}; "
        "search again for this model"
    )
    of(other).validate(other)


@given(graphs(8), graphs(8))
def test_it_agrees_with_the_fingerprint(one: OpGraph, other: OpGraph) -> None:
    assert first_difference(describe(one), one) is None
    if one.fingerprint != other.fingerprint:
        assert first_difference(describe(one), other) is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "relu"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "reads", "inputs", "units", "x"]), inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["inputs", "units", "outputs"]), JSON))
def test_a_damaged_description_is_no_crash(described: dict[str, Any]) -> None:
    graph = network()
    schedule = replace(of(graph), fingerprint="feed", described=described)
    with refused(ScheduleError, "sketch"):
        schedule.validate(graph)
