"""Schedules: every rule of validation by name, and JSON there and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.graph_sketch import GraphSketch, graphs
from tests.refusals import refused
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.schedule.placement import Share
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import Stage, Strategy, sequential_stages

CONCURRENT, MERGE, STREAMS = Strategy.CONCURRENT, Strategy.MERGE, Strategy.STREAMS


def diamond() -> OpGraph:
    """0 → (1, 2) → 3."""
    sketch = GraphSketch()
    top = sketch.op("relu", 0)
    return sketch.graph(sketch.op("add", sketch.op("exp", top), sketch.op("tanh", top)))


def schedule(graph: OpGraph, *stages: Stage, **changes: Any) -> Schedule:
    return replace(Schedule(graph.fingerprint, stages, "by hand"), **changes)


def stage(
    *groups: tuple[int, ...], strategy: Strategy = CONCURRENT, order: tuple[int, ...] = ()
) -> Stage:
    return Stage(strategy, groups, order)


VALID = {
    "one by one": [stage((0,)), stage((1,)), stage((2,)), stage((3,))],
    "side by side": [stage((0,)), stage((1,), (2,)), stage((3,))],
    "one group": [stage((0, 1, 2, 3))],
    "chains": [stage((0, 1)), stage((2, 3))],
    "merged": [stage((0,)), stage((1,), (2,), strategy=MERGE), stage((3,))],
    "streams": [stage((0, 1), (2, 3), strategy=STREAMS, order=(0, 2, 1, 3))],
    "streams of a few": [stage((0,)), stage((1,), (2, 3), strategy=STREAMS, order=(1, 2, 3))],
}


@pytest.mark.parametrize("case", VALID)
def test_accepts(case: str) -> None:
    graph = diamond()
    schedule(graph, *VALID[case]).validate(graph)


VIOLATIONS = {
    "empty stage": ([stage((0,)), stage()], ("stage 1", "empty")),
    "empty group": ([stage((0,), ())], ("stage 0", "empty")),
    "unknown unit": ([stage((0,)), stage((4,))], ("stage 1", "unit 4")),
    "negative unit": ([stage((-1,))], ("stage 0", "unit -1")),
    "twice in a group": ([stage((0, 0))], ("'relu0'", "twice")),
    "twice in a stage": ([stage((0,), (0,))], ("'relu0'", "twice")),
    "twice": ([stage((0,)), stage((0,))], ("'relu0'", "twice")),
    "too early": (
        [stage((1,)), stage((0,))],
        ("'exp1'", "stage 0", "'relu0'"),
    ),
    "beside": (
        [stage((0,), (1,))],
        ("'exp1'", "stage 0", "'relu0'"),
    ),
    "in the wrong order": (
        [stage((1, 0))],
        ("'exp1'", "stage 0", "'relu0'"),
    ),
    "between groups": (
        [stage((0,)), stage((1,), (2, 3))],
        ("'add3'", "stage 1", "'exp1'"),
    ),
    "merged chain": ([stage((0, 1), (2,), strategy=MERGE)], ("'tanh2'", "stage 0", "'relu0'")),
    "merged group": ([stage((0, 1), strategy=MERGE)], ("stage 0", "merges")),
    "an order without streams": ([stage((0, 1), order=(0, 1))], ("stage 0", "no streams")),
    "a stream out of order": (
        [stage((0, 2, 1), (3,), strategy=STREAMS, order=(0, 1, 2, 3))],
        ("stage 0", "another order"),
    ),
    "a stream never launched": (
        [stage((0, 1), (2, 3), strategy=STREAMS, order=(0, 1, 2))],
        ("stage 0", "another order"),
    ),
    "twice on a stream": (
        [stage((0, 1), (1, 2, 3), strategy=STREAMS, order=(0, 1, 2, 3))],
        ("stage 0", "another order"),
    ),
    "launched on no stream": (
        [stage((0, 1), (2,), strategy=STREAMS, order=(0, 1, 2, 3))],
        ("stage 0", "none of its streams"),
    ),
    "launched twice": (
        [stage((0, 1), (2, 3), strategy=STREAMS, order=(0, 0, 1, 2, 3))],
        ("'relu0'", "twice"),
    ),
    "launched before what it reads": (
        [stage((0, 1), (3, 2), strategy=STREAMS, order=(0, 1, 3, 2))],
        ("'add3'", "'tanh2'"),
    ),
    "missing": ([stage((0,)), stage((1,))], ("'tanh2'", "no stage")),
}


@pytest.mark.parametrize("case", VIOLATIONS)
def test_names_the_first_violation(case: str) -> None:
    stages, named = VIOLATIONS[case]
    graph = diamond()
    with refused(ScheduleError, *named):
        schedule(graph, *stages).validate(graph)


def test_another_graph_is_named_first() -> None:
    graph = diamond()
    other = schedule(graph, stage((9,)), fingerprint="feed")
    with refused(ScheduleError, "sketch", graph.fingerprint, "feed"):
        other.validate(graph)


def test_latencies_are_one_a_stage() -> None:
    graph = diamond()
    untimed = schedule(graph, *sequential_stages(graph))
    good = untimed.with_latencies((1.0, 2.0, 3.0, 4.0))
    good.validate(graph)
    assert good.latency == 10.0
    with refused(ScheduleError, "latency"):
        good.with_latencies((1.0,))
    with refused(ScheduleError, "latency"):
        Schedule.from_json({**good.to_json(graph), "latencies": [1.0]})
    assert good.with_latencies(()).latencies == ()
    assert untimed.latency == 0
    assert good == untimed, "latencies are expectations: schedules that differ in them are equal"
    assert hash(good) == hash(untimed)


def respects(graph: OpGraph, stages: tuple[Stage, ...]) -> bool:
    """Whether every unit runs once and after what it reads, by writing out who is before whom."""
    place = {
        unit: (s, g, i)
        for s, each in enumerate(stages)
        for g, group in enumerate(each.groups)
        for i, unit in enumerate(group)
    }
    units = [unit for each in stages for unit in each.units]
    if sorted(units) != list(range(len(graph))):
        return False
    for unit in units:
        for before in bits(graph.predecessors[unit]):
            (s, g, i), (t, h, j) = place[before], place[unit]
            if not (s < t or (s == t and g == h and i < j)):
                return False
    return True


@st.composite
def scheduled_graphs(draw: st.DrawFn) -> tuple[OpGraph, tuple[Stage, ...]]:
    """A graph and stages that are mostly right, and sometimes not."""
    graph = draw(graphs(8))
    order = list(range(len(graph)))
    if draw(st.booleans()):
        order = draw(st.permutations(order))
    stages: list[list[list[int]]] = []
    for unit in order:
        how = draw(st.sampled_from(["stage", "group", "unit"]))
        if how == "stage" or not stages:
            stages.append([[unit]])
        elif how == "group":
            stages[-1].append([unit])
        else:
            stages[-1][-1].append(unit)
    return graph, tuple(stage(*map(tuple, groups)) for groups in stages)


@given(scheduled_graphs())
def test_validation_is_what_its_rules_say(case: tuple[OpGraph, tuple[Stage, ...]]) -> None:
    graph, stages = case
    candidate = schedule(graph, *stages)
    if respects(graph, stages):
        candidate.validate(graph)
    else:
        with pytest.raises(ScheduleError):
            candidate.validate(graph)


@given(graphs())
def test_one_by_one_is_always_valid(graph: OpGraph) -> None:
    schedule(graph, *sequential_stages(graph)).validate(graph)


def full() -> tuple[OpGraph, Schedule]:
    graph = diamond()
    stages = (stage((0,)), stage((1,), (2,), strategy=MERGE), stage((3,)))
    untimed = Schedule(graph.fingerprint, stages, "ios-both", "a device", 4)
    return graph, untimed.with_latencies((0.1, 1e-7, 3.0))


def test_json_there_and_back(tmp_path: Path) -> None:
    graph, original = full()
    read = Schedule.from_json(json.loads(json.dumps(original.to_json(graph))))
    assert (read, read.latencies) == (original, original.latencies)
    original.save(tmp_path / "schedule.json", graph)
    assert Schedule.load(tmp_path / "schedule.json") == original
    assert json.loads((tmp_path / "schedule.json").read_text())["units"] == [
        op.name for op in graph.operators
    ]


def test_streams_come_back_with_the_order_of_their_launches() -> None:
    graph = diamond()
    original = schedule(graph, *VALID["streams"])
    data = json.loads(json.dumps(original.to_json(graph)))
    assert Schedule.from_json(data) == original
    assert (data["stages"][0]["order"], full()[1].to_json(graph)["stages"][0].keys()) == (
        [0, 2, 1, 3],
        {"strategy", "groups"},
    ), "files of other stages are as before"


def test_kernels_are_optional_and_come_back(tmp_path: Path) -> None:
    graph, original = full()
    assert "kernels" not in original.to_json(graph), "files are as before there were any"
    replace(original, kernels={1: "cudnn", 2: "cudnn"}).validate(graph)
    chosen = replace(original, kernels={3: "coarse", 0: "fine"})
    chosen.validate(graph)
    chosen.save(tmp_path / "schedule.json", graph)
    assert json.loads((tmp_path / "schedule.json").read_text())["kernels"] == {
        "0": "fine",
        "3": "coarse",
    }
    assert Schedule.load(tmp_path / "schedule.json") == chosen != original
    assert hash(chosen) == hash(replace(chosen, kernels=dict(chosen.kernels)))


@pytest.mark.parametrize(
    ("kernels", "named"),
    [
        ({4: "fine"}, ("unit 4",)),
        ({-1: "fine"}, ("unit -1",)),
        ({2: "fine"}, ("'exp1'", "'tanh2'", "kernels")),
        ({0: ""}, ("'relu0'", "name")),
    ],
)
def test_kernels_are_of_units_that_there_are(
    kernels: dict[int, str], named: tuple[str, ...]
) -> None:
    graph, original = full()
    with refused(ScheduleError, *named):
        replace(original, kernels=kernels).validate(graph)


def test_of_stages_alone_co_scheduled_units_run_one_after_another() -> None:
    graph = diamond()
    placement = tuple(Share(unit, 0, 0, 0, 1) for unit in range(len(graph)))
    units = (tuple(range(len(graph))),)
    whole = Stage(Strategy.CO_SCHEDULE, units, placement=placement)
    original = schedule(graph, whole, kernels={0: "fine"})
    original.validate(graph)
    left = original.of_stages_alone
    left.validate(graph)
    assert left == schedule(graph, stage(whole.units))


def test_latencies_of_units_are_positive_and_travel() -> None:
    graph, original = full()
    timed = replace(original, unit_latencies={0: (2.0, 1.0), 3: (0.5, 0.5)})
    timed.validate(graph)
    read = Schedule.from_json(json.loads(json.dumps(timed.to_json(graph))))
    assert read.unit_latencies == timed.unit_latencies
    assert "unit_latencies" not in original.to_json(graph)
    for wrong, named in (
        ({99: (1.0,)}, "unit 99"),
        ({0: ()}, "'relu0'"),
        ({0: (1.0, -1.0)}, "'relu0'"),
    ):
        with refused(ScheduleError, named):
            replace(original, unit_latencies=wrong).validate(graph)


Change = Callable[[dict[str, Any]], Any]
MALFORMED: dict[str, tuple[Change, str]] = {
    "other format": (lambda d: d.update(format="onnx"), "version 1"),
    "newer version": (lambda d: d.update(version=2), "version 1"),
    "no stages": (lambda d: d.pop("stages"), "'stages'"),
    "no groups": (lambda d: d["stages"][0].pop("groups"), "'groups'"),
    "strategy": (lambda d: d["stages"][0].update(strategy="slow"), "'slow'"),
    "names": (lambda d: d["stages"][0].update(groups=[["relu0"]]), "schedule file"),
    "flat groups": (lambda d: d["stages"][0].update(groups=[0]), "schedule file"),
    "stage": (lambda d: d.update(stages=[3]), "schedule file"),
    "stages": (lambda d: d.update(stages=None), "schedule file"),
    "latency": (lambda d: d.update(latencies=["fast"]), "schedule file"),
    "batch": (lambda d: d.update(batch="one"), "schedule file"),
    "kernels": (lambda d: d.update(kernels=["fine"]), "'kernels'"),
    "kernel": (lambda d: d.update(kernels={"0": 3}), "unit 0"),
    "latencies of units": (lambda d: d.update(unit_latencies=[1.0]), "schedule file"),
    "latency of a unit": (lambda d: d.update(unit_latencies={"0": 1.0}), "schedule file"),
    "kernel's unit": (lambda d: d.update(kernels={"relu0": "fine"}), "schedule file"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_data_is_refused(case: str) -> None:
    change, named = MALFORMED[case]
    graph, original = full()
    data = json.loads(json.dumps(original.to_json(graph)))
    change(data)
    with refused(ScheduleError, named):
        Schedule.from_json(data)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe\x00", b"[]"])
def test_malformed_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    path.write_bytes(content)
    with refused(ScheduleError, path):
        Schedule.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with refused(ScheduleError, "nothing.json"):
        Schedule.load(tmp_path / "nothing.json")
