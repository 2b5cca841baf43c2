"""Persistent programs: what the vEUs' tables say is enough, in every order that they allow."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_ext.execution.session import Session
from tests.graph_sketch import GraphSketch
from tests.persistent_lanes import program_of
from tests.random_units import Case, graphs, placements, random_inputs, unit_codes, unit_constants
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.program.happens_before import check_races
from tvm_ios.program.lower import lower
from tvm_ios.program.persistent import PersistentProgram
from tvm_ios.program.persistent_lowering import lower_persistent
from tvm_ios.program.program import BufferType, Launch, PhaseCall, Role, UnitCode, Wait
from tvm_ios.program.step_table import StepTable, StepWait, tabulate
from tvm_ios.rammer.wavefront import co_schedule
from tvm_ios.schedule.placement import Share
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy

LANES = 4


@st.composite
def whole_graphs(draw: st.DrawFn) -> Case:
    """Cases of one co-scheduled stage."""
    graph: OpGraph = draw(graphs())
    code = {unit: draw(unit_codes(graph, unit)) for unit in range(len(graph))}
    stage = Stage(Strategy.CO_SCHEDULE, (tuple(range(len(graph))),))
    placed = replace(stage, placement=draw(placements(graph, stage.units, code)))
    schedule = Schedule(graph.fingerprint, (placed,), "random")
    return Case(graph, schedule, code, {}, unit_constants(graph))


def persistent(case: Case) -> PersistentProgram:
    (stage,) = case.schedule.stages
    return lower_persistent(case.graph, stage, case.code, lanes=LANES)


@given(whole_graphs(), st.integers(0, 1000))
def test_computes_the_graph_on_lanes(case: Case, seed: int) -> None:
    program = program_of(persistent(case))
    check_races(program)
    for executor in ("reference", "native"):
        options: dict[str, Any] = {"seed": seed} if executor == "reference" else {}
        session = Session(program, case.functions(), case.constants, executor=executor, **options)
        inputs = random_inputs(case.graph, 7)
        session.set_input(**inputs)
        session.run()
        for name, value in case.expected(inputs).items():
            np.testing.assert_array_equal(session.get_output(name), value)
        session.close()


@given(whole_graphs())
def test_launches_are_those_of_the_usual_lowering(case: Case) -> None:
    program = program_of(persistent(case))
    usual = lower(case.graph, case.schedule, case.code, lanes=LANES)
    assert (program.buffers, program.kernels, program.uses) == (
        usual.buffers,
        usual.kernels,
        usual.uses,
    )
    for mine, theirs in zip(program.lanes, usual.lanes, strict=True):
        assert [i for i in mine if isinstance(i, Launch)] == [
            i for i in theirs if isinstance(i, Launch)
        ]


def needs(program: PersistentProgram) -> list[int]:
    """For each operator the bit set of the earlier ones that it must come after, by the data."""
    masks: list[int] = []
    for number, operator in enumerate(program.operators):
        mask = 0
        for other in range(number):
            if conflict(program, program.operators[other], operator):
                mask |= 1 << other
        masks.append(mask)
    return masks


def conflict(program: PersistentProgram, a: Any, b: Any) -> bool:
    writes = [{of.buffers[place] for place in program.uses[of.kernel].writes} for of in (a, b)]
    return bool(writes[0] & {*b.buffers} or writes[1] & {*a.buffers})


def first_violation(
    program: PersistentProgram, table: StepTable, choice: random.Random
) -> int | None:
    """Interpret the tables, vEUs going on in a random order; the first step that is too early.

    Raises
    ------
    AssertionError
        If no vEU can go on, or not every rTask runs once.
    """
    required = needs(program)
    lanes = len(table.first) - 1
    steps_done = [0] * lanes
    left = [
        sum(s.end - s.begin for s in table.steps if s.operator == n) for n in range(len(required))
    ]
    # Some vEUs are slow, so that orders far from a common pace are tried too.
    pace = [choice.choice([1, 1, 20]) for _ in range(lanes)]
    while True:
        open_lanes = [
            n for n in range(lanes) if table.first[n] + steps_done[n] < table.first[n + 1]
        ]
        if not open_lanes:
            assert not any(left)
            return None
        able = [
            lane
            for lane in open_lanes
            for step in [table.steps[table.first[lane] + steps_done[lane]]]
            if all(
                steps_done[w.lane] >= w.steps for w in table.waits[step.first_wait : step.last_wait]
            )
        ]
        assert able, "every vEU waits"
        lane = choice.choices(able, [pace[n] for n in able])[0]
        number = table.first[lane] + steps_done[lane]
        step = table.steps[number]
        if any(left[other] for other in bits(required[step.operator])):
            return number
        left[step.operator] -= step.end - step.begin
        steps_done[lane] += 1


@given(whole_graphs(), st.randoms(use_true_random=False))
def test_tables_honour_the_data(case: Case, choice: random.Random) -> None:
    program = persistent(case)
    table = tabulate(program)
    assert first_violation(program, table, choice) is None
    # No operator is waited for that an earlier wait of the same step implies.
    for operator in program.operators:
        for other in operator.waits:
            assert not set(operator.waits) & set(program.operators[other].waits)


def test_a_dropped_wait_is_found() -> None:
    """Of every barrier, every wait for another vEU's steps is needed in some order."""
    caught = tried = 0

    # A fast run draws as many: fewer would say little about half of them.
    @settings(max_examples=100)
    @given(whole_graphs())
    def drop(case: Case) -> None:
        nonlocal caught, tried
        program = persistent(case)
        table = tabulate(program)
        for number, step in enumerate(table.steps):
            lane = sum(first <= number for first in table.first) - 1
            waits = table.waits[step.first_wait : step.last_wait]
            for dropped in waits:
                if dropped.lane == lane:
                    continue
                kept = tuple(w for w in waits if w is not dropped)
                begin = len(table.waits)
                steps = list(table.steps)
                steps[number] = step._replace(first_wait=begin, last_wait=begin + len(kept))
                broken = replace(table, steps=tuple(steps), waits=(*table.waits, *kept))
                tried += 1
                caught += any(
                    first_violation(program, broken, random.Random(seed)) is not None
                    for seed in range(30)
                )
                return

    drop()
    assert tried >= 20
    # Some waits are implied by what other waits of the same barrier bring along.
    assert caught >= tried / 2


def test_known_tables() -> None:
    """Two matrix rTasks beside four others, and then one on each vEU (Rammer, figure 9)."""
    sketch = GraphSketch()
    graph = sketch.graph(sketch.op("conv", sketch.op("matmul", 0), sketch.op("relu", 0)))
    vector = BufferType((4,))

    def code(name: str, tiles: int, inputs: int) -> UnitCode:
        arguments = tuple(range(inputs + 1))
        return UnitCode((vector,) * (inputs + 1), 1, (), (PhaseCall(name, tiles, arguments),))

    codes = {0: code("matmul", 2, 1), 1: code("relu", 4, 1), 2: code("conv", 2, 2)}
    placement = (
        Share(0, 0, 0, 0, 2),
        Share(1, 0, 1, 0, 4),
        Share(2, 0, 0, 0, 1),
        Share(2, 0, 1, 1, 2),
    )
    stage = Stage(Strategy.CO_SCHEDULE, ((0, 1, 2),), placement=placement)
    program = lower_persistent(graph, stage, codes, lanes=2)
    assert [b.role for b in program.buffers] == [Role.INPUT, Role.OUTPUT, *[Role.INTERMEDIATE] * 2]
    assert not program.independent
    # Each vEU has run one of the two operators itself.
    assert program.barriers == (((), (1,)), ((), (0,)))
    table = tabulate(program)
    assert table.first == (0, 2, 4)
    assert table.steps == ((0, 0, 2, 0, 0), (2, 0, 1, 0, 1), (1, 0, 4, 0, 0), (2, 1, 2, 1, 2))
    assert table.waits == (StepWait(1, 1), StepWait(0, 1))
    assert (table.barriers, table.polls) == (2, 2)
    assert program_of(program).lanes[0][1] == Wait(1, 1)


def test_tables_stay_small_on_hundreds_of_veus() -> None:
    """A chain over all vEUs: a list of waits an operator, not one for every pair of vEUs."""
    units, tasks, veus = 30, 2000, 528
    sketch = GraphSketch()
    last = 0
    for _ in range(units):
        last = sketch.op("conv", last)
    graph = sketch.graph(last)
    vector = BufferType((4,))
    code = UnitCode((vector,) * 2, 1, (), (PhaseCall("conv", tasks, (0, 1)),))
    kernel = RKernel("default", (tasks,), (1e-6,), 1e-5)
    rprogram = co_schedule(graph, range(units), lambda unit: (kernel,), veus)
    # Ranges of rTasks: a share a vEU and operator.
    assert len(rprogram.placement) == units * veus
    program = lower_persistent(
        graph,
        Stage(Strategy.CO_SCHEDULE, (rprogram.units,), placement=rprogram.placement),
        dict.fromkeys(range(units), code),
        lanes=veus,
    )
    table = tabulate(program)
    assert len(table.steps) == units * veus
    assert table.barriers == (units - 1) * veus
    assert len(table.waits) == (units - 1) * veus
