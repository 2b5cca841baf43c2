"""Placements: every rule by name, and what a schedule of them says as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.graph_sketch import GraphSketch
from tests.refusals import refused
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.placement import Placement, Share, fault_of
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import Stage, Strategy


def diamond() -> OpGraph:
    """0 → (1, 2) → 3."""
    sketch = GraphSketch()
    top = sketch.op("relu", 0)
    return sketch.graph(sketch.op("add", sketch.op("exp", top), sketch.op("tanh", top)))


def whole(unit: int, phase: int = 0, tiles: int = 2) -> Share:
    return Share(unit, phase, 0, 0, tiles)


VALID = {
    "one after another": (whole(0), whole(1), whole(2), whole(3)),
    "split": (Share(0, 0, 1, 3, 4), Share(0, 0, 0, 0, 3), whole(1), whole(2), whole(3)),
    "phases interleaved": (whole(0), whole(1), whole(2), whole(1, 1), whole(2, 1), whole(3)),
    "without code": (whole(0), whole(2), whole(3)),
}


@pytest.mark.parametrize("case", VALID)
def test_accepts(case: str) -> None:
    assert fault_of(diamond(), (0, 1, 2, 3), VALID[case]) is None


FAULTS = {
    "another unit": ((whole(0), whole(4)), "places unit 4, which is not in it"),
    "no rTasks": ((Share(0, 0, 0, 2, 2),), "places rTasks 2 to 2 of unit 'relu0' on lane 0"),
    "no lane": ((Share(0, 0, -1, 0, 2),), "places rTasks 0 to 2 of unit 'relu0' on lane -1"),
    "before the first": ((Share(0, 0, 0, -1, 2),), "places rTasks -1 to 2"),
    "not from the first": ((Share(0, 0, 0, 1, 2),), "rTask 0 of unit 'relu0' twice or not"),
    "a gap": ((Share(0, 0, 0, 0, 2), Share(0, 0, 1, 3, 4)), "rTask 2 of unit 'relu0' twice or not"),
    "twice": ((Share(0, 0, 0, 0, 2), Share(0, 0, 1, 1, 4)), "rTask 1 of unit 'relu0' twice or not"),
    "apart": ((whole(0), whole(1), Share(0, 0, 0, 2, 3)), "phase 0 of unit 'relu0' where 1"),
    "phases the wrong way": ((whole(0, 1), whole(0)), "phase 1 of unit 'relu0' where 0"),
    "another order": ((whole(0), whole(2), whole(1)), "places unit 'exp1' later than it says"),
    "a phase too late": (
        (whole(0), whole(1), whole(0, 1)),
        "places unit 'relu0' after one that reads from it",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_names_the_first_fault(case: str) -> None:
    placement, sentence = FAULTS[case]
    fault = fault_of(diamond(), (0, 1, 2, 3), placement)
    assert fault is not None
    assert sentence in fault


def co_scheduled(placement: Placement) -> Schedule:
    stages = (
        Stage(Strategy.CONCURRENT, ((0,),)),
        Stage(Strategy.CO_SCHEDULE, ((1, 2, 3),), placement=placement),
    )
    return Schedule(diamond().fingerprint, stages, "by hand")


GOOD = (whole(1), Share(2, 0, 1, 0, 3), whole(3))


def test_a_schedule_has_the_placements_of_its_co_scheduled_stages() -> None:
    graph = diamond()
    good = co_scheduled(GOOD)
    good.validate(graph)
    data = json.loads(json.dumps(good.to_json(graph)))
    assert Schedule.from_json(data) == good
    del data["placements"]
    apart, together = good.stages
    unplaced = replace(together, placement=None)
    assert Schedule.from_json(data) == replace(good, stages=(apart, unplaced))

    def refuses(*stages: Stage, named: str) -> None:
        with refused(ScheduleError, *named.split("; ")):
            replace(good, stages=stages).validate(graph)

    refuses(apart, unplaced, named="stage 1; co_schedule")
    refuses(replace(apart, placement=(whole(0),)), together, named="stage 0; concurrent")
    wrong = replace(together, placement=(whole(0), *GOOD))
    refuses(apart, wrong, named="stage 1; unit 0")
    refuses(apart, replace(together, groups=((1,), (2,))), named="stage 1; group")
    with refused(ScheduleError, "stage 5"):
        Schedule.from_json({**data, "placements": [[5, []]]})


@pytest.mark.parametrize(
    "placements",
    [
        7,
        [[1]],
        [["1", []]],
        [[1, [[1, 0, 0, 0]]]],
        [[1, [[1, 0, 0, 0, 2, 9]]]],
        [[1, [[1, 0, 0, 0, -2]]]],
        [[1, [[1, 0, 0, 0, 1e300]]]],
        [[1, 4]],
        None,
        {"1": []},
    ],
)
def test_placements_that_are_none_are_refused(placements: object) -> None:
    data = co_scheduled(GOOD).to_json(diamond())
    with refused(ScheduleError, "schedule file"):
        Schedule.from_json({**data, "placements": placements})
