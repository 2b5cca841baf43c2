from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.persistent_lanes import program_of
from tests.random_units import VECTOR, Case, cases
from tests.refusals import refused
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.happens_before import RaceError, check_races, ordered_launches
from tvm_ios.program.lower import lower, lower_stages, recorded_latency
from tvm_ios.program.persistent_lowering import lower_persistent
from tvm_ios.program.program import BufferType, Launch, PhaseCall, Program, Role, UnitCode, Wait
from tvm_ios.program.program_builder import LoweringError, tensor_names
from tvm_ios.schedule.placement import Share
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy, sequential_stages


def chain(*edges: tuple[int, ...], inputs: int = 1) -> OpGraph:
    """Units of one output each; unit ``i`` reads the tensors given, 0 being the input."""
    tensors = [Tensor(f"in{i}", (12,), "int64") for i in range(inputs)]
    operators: list[Operator] = []
    for unit, reads in enumerate(edges):
        operators.append(Operator(f"u{unit}", "k", reads, (len(tensors),), flops=1))
        tensors.append(Tensor(f"t{unit}", (12,), "int64"))
    read = {t for op in operators for t in op.inputs}
    outputs = tuple(t for op in operators for t in op.outputs if t not in read)
    return OpGraph("chain", tuple(operators), tuple(tensors), tuple(range(inputs)), outputs)


def simple_code(graph: OpGraph, tiles: int = 4, scratch: bool = False) -> dict[int, UnitCode]:
    """One phase a unit, or two with scratch between; no constants."""
    codes: dict[int, UnitCode] = {}
    for unit, op in enumerate(graph.operators):
        data = len(set(op.inputs))
        inputs = tuple(range(data))
        if scratch:
            calls = (
                PhaseCall(f"a{unit}", tiles, (*inputs, data + 1)),
                PhaseCall(f"b{unit}", tiles, (data + 1, data)),
            )
        else:
            calls = (PhaseCall(f"k{unit}", tiles, (*inputs, data)),)
        codes[unit] = UnitCode((VECTOR,) * (data + 1), 1, (VECTOR,) * scratch, calls)
    return codes


def schedule(graph: OpGraph, *stages: Stage) -> Schedule:
    return Schedule(graph.fingerprint, stages or sequential_stages(graph), policy="test")


def lanes_of(program: Program) -> dict[str, set[int]]:
    """For each unit the lanes that work on it."""
    used: dict[str, set[int]] = defaultdict(set)
    for lane, items in enumerate(program.lanes):
        for item in items:
            if isinstance(item, Launch):
                used[program.units[item.unit]].add(lane)
    return used


def written(case: Case) -> dict[str, frozenset[int]]:
    """For each kernel symbol the positions of the arguments that it may write.

    Code does not say which of outputs and scratch a phase writes, so a position counts as
    written if every unit that uses the kernel has an output or scratch there.
    """
    positions: dict[str, frozenset[int]] = {}
    for code in (*case.code.values(), *case.merged.values()):
        inputs = len(code.parameters) - code.outputs
        for call in code.calls:
            of_call = frozenset(p for p, a in enumerate(call.arguments) if a >= inputs)
            positions[call.symbol] = positions.get(call.symbol, of_call) & of_call
    return positions


@given(cases(), st.integers(1, 4))
def test_every_tile_is_launched_once(case: Case, lanes: int) -> None:
    program = lower(case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes)
    ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for lane in program.lanes:
        for item in lane:
            if isinstance(item, Launch):
                ranges[program.kernels[item.kernel]].append((item.begin, item.end))
    merged_away = {u for stage in case.merged for u in stage.units}
    codes = [c for u, c in case.code.items() if u not in merged_away] + list(case.merged.values())
    tiles = {call.symbol: call.tiles for code in codes for call in code.calls}
    assert ranges.keys() == tiles.keys()
    placed = {
        call.symbol
        for stage in case.schedule.stages
        if stage.strategy is Strategy.CO_SCHEDULE
        for unit in stage.units
        for call in case.code[unit].calls
    }
    for symbol, launched in ranges.items():
        covered = [tile for begin, end in sorted(launched) for tile in range(begin, end)]
        assert covered == list(range(tiles[symbol]))
        if symbol in placed:
            continue
        sizes = [end - begin for begin, end in launched]
        assert max(sizes) - min(sizes) <= 1


@given(cases(), st.integers(1, 4), st.booleans())
def test_lowered_programs_have_no_races(case: Case, lanes: int, barriers: bool) -> None:
    program = lower(
        case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes, barriers=barriers
    )
    uses = zip(program.kernels, program.uses, strict=True)
    expected = written(case)
    assert all(frozenset(use.writes) == expected[symbol] for symbol, use in uses)
    check_races(program)


@given(cases(), st.integers(2, 4), st.data())
def test_every_wait_is_needed(case: Case, lanes: int, data: st.DataObject) -> None:
    program = lower(case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes)
    waits = [
        (lane, place)
        for lane, items in enumerate(program.lanes)
        for place, item in enumerate(items)
        if isinstance(item, Wait)
    ]
    assume(waits)
    lane, place = data.draw(st.sampled_from(waits))
    items = program.lanes[lane]
    lanes_less = list(program.lanes)
    lanes_less[lane] = (*items[:place], *items[place + 1 :])
    with pytest.raises(RaceError):
        check_races(replace(program, lanes=tuple(lanes_less)))


@given(cases(), st.integers(2, 4))
def test_barriers_order_stages(case: Case, lanes: int) -> None:
    program = lower(
        case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes, barriers=True
    )
    stage_of: dict[str, int] = {}
    for number, stage in enumerate(case.schedule.stages):
        names = [case.graph.operators[u].name for u in stage.units]
        stage_of |= dict.fromkeys([*names, "+".join(names)], number)
    launches = list(ordered_launches(program))
    counts = [[0] * lanes for _ in case.schedule.stages]
    for lane, _, _, launch in launches:
        counts[stage_of[program.units[launch.unit]]][lane] += 1
    for lane, _, finished, launch in launches:
        stage = stage_of[program.units[launch.unit]]
        for other in range(lanes):
            before = sum(counts[earlier][other] for earlier in range(stage))
            assert other == lane or finished[other] >= before


def test_groups_get_lanes_of_their_own() -> None:
    graph = chain((0,), (0,), (1,), (2,))
    stage = Stage(Strategy.CONCURRENT, ((0, 2), (1, 3)))
    program = lower(graph, schedule(graph, stage), simple_code(graph), lanes=4)
    used = lanes_of(program)
    assert used["u0"] == used["u2"]
    assert used["u1"] == used["u3"]
    assert not used["u0"] & used["u1"]
    assert used["u0"] | used["u1"] == {0, 1, 2, 3}
    narrow = lanes_of(lower(graph, schedule(graph, stage), simple_code(graph), lanes=1))
    assert set(map(frozenset, narrow.values())) == {frozenset({0})}


def test_more_groups_than_lanes_take_one_lane_each() -> None:
    graph = chain(*[(0,)] * 5)
    stage = Stage(Strategy.CONCURRENT, tuple((u,) for u in range(5)))
    used = lanes_of(lower(graph, schedule(graph, stage), simple_code(graph), lanes=2))
    assert all(len(lanes) == 1 for lanes in used.values())
    assert set.union(*used.values()) == {0, 1}


def test_measured_latencies_size_teams_and_narrow_units() -> None:
    graph = chain((0,), (0,))
    stage = Stage(Strategy.CONCURRENT, ((0,), (1,)))

    def latency(unit: int, lanes: int) -> float:
        return (9.0 if unit == 1 else 1.0) / lanes

    program = lower(
        graph, schedule(graph, stage), simple_code(graph), lanes=4, unit_latency=latency
    )
    assert [len(lanes) for _, lanes in sorted(lanes_of(program).items())] == [1, 3]
    program = lower(
        graph,
        schedule(graph),
        simple_code(graph),
        lanes=4,
        unit_latency=lambda unit, lanes: abs(lanes - 2) + 1.0,
    )
    assert all(lanes == {0, 1} for lanes in lanes_of(program).values())


def test_recorded_latencies_count_if_they_say_how_to_share_lanes() -> None:
    concurrent = Stage(Strategy.CONCURRENT, ((0,), (1,), (2,)))
    stages = (concurrent, Stage(Strategy.CONCURRENT, ((3,),)))
    times = {unit: (unit + 2.0, 1.0) for unit in range(3)}
    latency = recorded_latency(stages, times, 2)
    assert latency is not None
    assert [latency(unit, 1) for unit in range(4)] == [2.0, 3.0, 4.0, 1.0]
    assert latency(3, 2) < latency(3, 1), "a unit of its own stage takes all lanes"
    del times[1]
    assert recorded_latency(stages, times, 2) is None
    assert recorded_latency(stages, times, 3) is None, "nobody measured on three"
    assert recorded_latency(stages[1:], times, 2) is not None


def test_scratch_makes_no_unit_wait_for_another() -> None:
    wide = chain((0,), (0,))
    stage = Stage(Strategy.CONCURRENT, ((0,), (1,)))
    program = lower(wide, schedule(wide, stage), simple_code(wide, scratch=True), lanes=2)
    assert sum(b.role is Role.SCRATCH for b in program.buffers) == 2
    assert not any(isinstance(i, Wait) for lane in program.lanes for i in lane)


def test_code_of_a_chain_reads_what_its_units_do_not_make() -> None:
    graph = chain((0,), (1, 2), (3,), inputs=2)
    stage = Stage(Strategy.CONCURRENT, ((0, 1),))
    code = UnitCode((VECTOR,) * 3, 1, (), (PhaseCall("joined", 4, (0, 1, 2)),))
    program = lower_stages(graph, (stage,), {}, {stage: code}, lanes=2)
    assert program.units == ("u0+u1",)
    assert {b.name: b.role for b in program.buffers} == {
        "in0": Role.INPUT,
        "in1": Role.INPUT,
        "t1": Role.OUTPUT,
    }


def test_roles_of_a_whole_graph_and_of_one_stage() -> None:
    graph = chain((0,), (1,), (1,))
    whole = lower(graph, schedule(graph), simple_code(graph), lanes=2)
    assert {b.name: b.role for b in whole.buffers} == {
        "in0": Role.INPUT,
        "t0": Role.INTERMEDIATE,
        "t1": Role.OUTPUT,
        "t2": Role.OUTPUT,
    }
    first = lower_stages(graph, sequential_stages(graph)[:1], simple_code(graph), lanes=2)
    assert [b.role for b in first.buffers] == [Role.INPUT, Role.OUTPUT]
    last = lower_stages(graph, sequential_stages(graph)[1:2], simple_code(graph), lanes=2)
    assert {b.name: b.role for b in last.buffers} == {"t0": Role.INPUT, "t1": Role.OUTPUT}


def test_inputs_handed_through_have_buffers() -> None:
    graph = chain((0,), inputs=2)
    graph = replace(graph, outputs=(*graph.outputs, 1))
    program = lower(graph, schedule(graph), simple_code(graph), lanes=1)
    assert {b.name for b in program.buffers} == {"in0", "in1", "t0"}


def test_names_of_buffers_are_unique() -> None:
    tensors = tuple(Tensor(n, (1,)) for n in ("a", "a", "a#1", "conv/0", "conv/0#3", "conv/x"))
    names = tensor_names(OpGraph("g", (), tensors, (0, 1, 2, 3, 4, 5), ()))
    assert len(set(names)) == 6
    assert "conv/0" not in names
    assert names[5] == "conv/x"


def test_what_does_not_fit_is_refused() -> None:
    graph = chain((0,), (1,))
    code = simple_code(graph)
    with refused(LoweringError, "'u1'", "code"):
        lower(graph, schedule(graph), {0: code[0]}, lanes=1)
    other = replace(code[1], parameters=(BufferType((1, 12), "int64"), VECTOR))
    with refused(LoweringError, "'t0'", "int64[12]", "'u0'", "int64[1, 12]"):
        lower(graph, schedule(graph), {0: code[0], 1: other}, lanes=1)
    with refused(LoweringError, "'u0'", "1 data inputs", "2 parameters"):
        lower(graph, schedule(graph), {0: replace(code[0], outputs=2), 1: code[1]}, lanes=1)
    with refused(LoweringError, "one lane"):
        lower(graph, schedule(graph), code, lanes=0)
    wide = chain((0,), (0,))
    merge = Stage(Strategy.MERGE, ((0,), (1,)))
    with refused(LoweringError, "'u0+u1'", "code"):
        lower(wide, schedule(wide, merge), simple_code(wide), lanes=1)
    together = Stage(Strategy.CO_SCHEDULE, ((0, 1),))

    def refuses(named: str, *placement: Share, lanes: int = 2) -> None:
        stage = replace(together, placement=placement)
        with refused(LoweringError, named):
            lower_stages(wide, (stage,), simple_code(wide), lanes=lanes)

    refuses("unit 'u0'")
    one, other = Share(0, 0, 0, 0, 4), Share(1, 0, 1, 0, 4)
    refuses("unit 'u1'", one, Share(1, 0, 1, 0, 3))
    refuses("unit 'u1'", one, other, Share(1, 1, 1, 0, 4))
    refuses("more lanes than 1", one, other, lanes=1)
    refuses("'u0' later", other, one)


def test_a_co_scheduled_stage_runs_as_it_is_placed() -> None:
    graph = chain((0,), (0,), (1,))
    placement = (
        *(Share(0, 0, 0, 0, 1), Share(0, 0, 0, 1, 3), Share(0, 0, 1, 3, 4)),
        *(Share(1, 0, 1, 2, 4), Share(1, 0, 1, 0, 1), Share(1, 0, 1, 1, 2)),
        *(Share(2, 0, 0, 0, 1), Share(2, 0, 0, 2, 4), Share(2, 0, 1, 1, 2)),
    )
    stage = Stage(Strategy.CO_SCHEDULE, ((0, 1, 2),), placement=placement)
    program = lower(graph, schedule(graph, stage), simple_code(graph), lanes=2)

    def launch(kernel: int, begin: int, end: int) -> tuple[str, int, int]:
        return f"k{kernel}", begin, end

    told = [
        [
            item if isinstance(item, Wait) else (program.kernels[item.kernel], item.begin, item.end)
            for item in lane
        ]
        for lane in program.lanes
    ]
    # Neighbours are one launch, and nobody waits for the unit that it does not read from.
    assert told == [
        [launch(0, 0, 3), Wait(1, 1), launch(2, 0, 1), launch(2, 2, 4)],
        [launch(0, 3, 4), launch(1, 0, 4), Wait(0, 1), launch(2, 1, 2)],
    ]


def test_a_unit_of_no_code_in_a_co_scheduled_stage_emits_nothing() -> None:
    graph = chain((0,), (1,))
    code = simple_code(graph)
    code[1] = replace(code[1], calls=())
    stage = Stage(Strategy.CO_SCHEDULE, ((0, 1),), placement=(Share(0, 0, 1, 0, 4),))
    program = lower(graph, schedule(graph, stage), code, lanes=2)
    assert lanes_of(program) == {"u0": {1}}
    assert set(program.units) == {"u0", "u1"}


def test_units_of_a_co_scheduled_stage_are_numbered_as_data_flows() -> None:
    graph = chain((0,), (1,), (1,), (2, 3), (4,))
    code = simple_code(graph)
    code[3] = replace(code[3], calls=())
    placement = tuple(Share(unit, 0, 0, 0, 4) for unit in (0, 1, 2, 4))
    stage = Stage(Strategy.CO_SCHEDULE, ((0, 1, 2, 3, 4),), placement=placement)
    program = lower(graph, schedule(graph, stage), code, lanes=2)
    one_kernel = program_of(lower_persistent(graph, stage, code, lanes=2))
    assert program.units == one_kernel.units == ("u0", "u1", "u2", "u3", "u4")
    assert program.uses == one_kernel.uses
