"""Pictures show times: boxes are as wide as what they stand for, and idle time stays empty."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.graph_sketch import GraphSketch
from tvm_ios.costs.named import costs_named
from tvm_ios.costs.stage_spans import schedule_spans
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.operator_families import Family, family_of
from tvm_ios.plot import plot_profile, plot_schedule
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _no_figure_stays_open() -> Iterator[None]:
    yield
    pyplot.close("all")


def branches() -> OpGraph:
    """A convolution and a pooling beside each other, and their sum."""
    sketch = GraphSketch()
    left, right = sketch.conv(0, bias=False), sketch.op("max_pool2d", 0, kernel=(3, 3))
    sketch.op("add", left, right)
    return sketch.graph()


def boxes(ax: Any) -> list[tuple[float, float, float]]:
    """Left, right and the middle of each box."""
    return [
        (extent.x0, extent.x1, (extent.y0 + extent.y1) / 2)
        for box in ax.collections
        for extent in [box.get_paths()[0].get_extents()]
    ]


def schedule_of(graph: OpGraph, **more: Any) -> Schedule:
    stages = (
        Stage(Strategy.CONCURRENT, ((0,), (1,))),
        Stage(Strategy.CONCURRENT, ((2,),)),
    )
    return Schedule(graph.fingerprint, stages, "by hand", device="two lanes", **more)


def test_measured_units_are_as_wide_as_their_share_and_the_rest_stays_empty() -> None:
    graph = branches()
    latencies = {0: (3e-3, 2e-3), 1: (1e-3, 1e-3), 2: (2e-3, 1e-3)}
    ax = plot_schedule(
        graph, schedule_of(graph, unit_latencies=latencies).with_latencies((6e-3, 1e-3))
    )
    conv, pool, add = boxes(ax)
    # The stage takes twice as long as the longest unit alone: all are stretched alike.
    assert conv[:2] == pytest.approx((0, 6))
    assert pool[:2] == pytest.approx((0, 2))
    assert add[:2] == pytest.approx((6, 7))
    assert conv[2] != pool[2]
    assert add[2] == pytest.approx((conv[2] + pool[2]) / 2)
    title = ax.get_title()
    for word in ("by hand", "two lanes", "7.000 ms", "measured"):
        assert word in title
    (legend,) = ax.figure.legends
    names = {text.get_text() for text in legend.get_texts()}
    assert names == {"convolution", "pooling", "element by element"}
    assert {"conv2d0", "max_pool2d1"} <= {text.get_text() for text in ax.texts}


def test_described_units_are_drawn_as_they_are_simulated() -> None:
    graph, costs = branches(), costs_named("v100")
    model = costs.stages
    assert model is not None
    untimed = schedule_of(graph)
    schedule = untimed.with_latencies([model.stage_latency(graph, s) for s in untimed.stages])
    ax = plot_schedule(graph, schedule, model=model)
    spans = schedule_spans(graph, schedule, model).spans
    drawn = [(left, right) for left, right, _ in boxes(ax)]
    assert drawn == [pytest.approx((s.begin * 1e3, s.end * 1e3)) for s in spans]
    assert "simulated" in ax.get_title()


def test_without_times_it_says_so_and_a_slice_begins_at_zero() -> None:
    graph = branches()
    ax = plot_schedule(graph, schedule_of(graph), first=1)
    ((left, right, _),) = boxes(ax)
    assert (left, right) == pytest.approx((0, 1))
    assert "no times" in ax.get_xlabel()
    merged = replace(schedule_of(graph), stages=(Stage(Strategy.MERGE, ((0,), (1,))),))
    assert boxes(plot_schedule(graph, merged))


def test_a_run_has_a_box_a_launch() -> None:
    from tests.explain.simulated import Span

    spans = [Span(0, 0, 0.0, 1e-3), Span(1, 0, 2e-3, 5e-3)]
    ax = plot_profile(spans, ["first", "second"], ["conv2d", "add"], title="a run")
    assert [box[:2] for box in boxes(ax)] == [pytest.approx((0, 1)), pytest.approx((2, 5))]
    assert ax.get_title() == "a run"


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("relu+conv2d+bias_add", Family.CONVOLUTION),
        ("matmul+divide+softmax", Family.PRODUCT),
        ("mean+reshape", Family.POOLING),
        ("add+concat", Family.ELEMENTS),
        ("concat", Family.MOVES),
        ("layer_norm", Family.NORMALISATION),
        ("topk+reshape", Family.OTHER),
        ("", Family.OTHER),
    ],
)
def test_a_unit_has_the_family_of_its_heaviest_operator(kind: str, family: Family) -> None:
    assert family_of(kind) is family
