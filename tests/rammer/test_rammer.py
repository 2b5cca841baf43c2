"""Rammer's policy against the same said word by word, rTask by rTask."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.random_dags import dags, graph_of
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.program.happens_before import check_races, ordered_launches
from tvm_ios.program.lower import lower
from tvm_ios.program.program import BufferType, PhaseCall, UnitCode
from tvm_ios.rammer.rprogram import RProgram, select_lanes, simulate, simulated_spans
from tvm_ios.rammer.wavefront import (
    co_schedule,
    rammer_schedule,
    schedule_wave,
    wavefront_programs,
    with_placements,
)
from tvm_ios.schedule.placement import fault_of
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.waves import stage_of, waves

Kernels = dict[int, tuple[RKernel, ...]]


@st.composite
def rkernels(draw: st.DrawFn, units: int, most_tasks: int = 9) -> Kernels:
    """One to three rKernels a unit, each of no to three phases; with times that tie, or not."""
    seconds = draw(st.sampled_from([st.integers(1, 3).map(float), st.floats(0.1, 9.0)]))

    def kernel(name: str) -> RKernel:
        tasks = draw(st.lists(st.integers(1, most_tasks), max_size=3))
        times = [draw(seconds) for _ in tasks]
        return RKernel(name, tuple(tasks), tuple(times), draw(seconds))

    return {
        unit: tuple(kernel(f"k{i}") for i in range(draw(st.integers(1, 3))))
        for unit in range(units)
    }


def by_chance(programs: Sequence[RProgram]) -> list[float]:
    """Seconds that depend on where and when every rTask runs, and on nothing else."""
    return [
        random.Random(f"{p.placement} {sorted(p.kernels)}").random() + len(p.units) / 3
        for p in programs
    ]


@dataclass
class NaiveProgram:
    """An rProgram as the paper has it: rTasks by execution unit and order; it changes."""

    clocks: list[float]
    appended: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    chosen: dict[int, RKernel] = field(default_factory=dict[int, RKernel])
    ends: dict[int, float] = field(default_factory=dict[int, float])

    def copy(self) -> NaiveProgram:
        return NaiveProgram(
            list(self.clocks), list(self.appended), dict(self.chosen), dict(self.ends)
        )

    def append(self, graph: OpGraph, wave: Sequence[int], chosen: dict[int, RKernel]) -> None:
        operators = [
            (unit, phase) for phase in range(3) for unit in wave if phase < len(chosen[unit].tasks)
        ]
        for unit in wave:
            self.chosen[unit] = chosen[unit]
            before = [self.ends[p] for p in bits(graph.predecessors[unit]) if p in self.ends]
            self.ends[unit] = max(before, default=0.0)
        for unit, phase in operators:
            ready = self.ends[unit]
            first = [max(clock, ready) for clock in self.clocks]
            idle = [start - clock for start, clock in zip(first, self.clocks, strict=True)]
            count = [0] * len(first)
            for _ in range(chosen[unit].tasks[phase]):
                seconds = chosen[unit].task_seconds[phase]
                begins = [start + n * seconds for start, n in zip(first, count, strict=True)]
                lane = min(range(len(first)), key=lambda i: (begins[i], idle[i], i))
                idle[lane] = 0.0
                count[lane] += 1
                self.appended.append((unit, phase, lane))
                self.clocks[lane] = first[lane] + count[lane] * seconds
                self.ends[unit] = max(self.ends[unit], self.clocks[lane])


def counts(appended: Sequence[tuple[int, int, int]]) -> dict[tuple[int, int, int], int]:
    total: dict[tuple[int, int, int], int] = {}
    for task in appended:
        total[task] = total.get(task, 0) + 1
    return total


def counts_of(program: RProgram) -> dict[tuple[int, int, int], int]:
    return {(s.unit, s.phase, s.lane): s.end - s.begin for s in program.placement}


@given(
    st.lists(st.integers(0, 12).map(float) | st.floats(0, 30), min_size=1, max_size=6),
    st.integers(0, 12).map(float) | st.floats(0, 30),
    st.integers(0, 120),
    st.integers(1, 4).map(float) | st.floats(0.01, 5) | st.just(0.0),
)
@examples(300)
def test_ranges_are_what_choosing_task_by_task_gives(
    clocks: list[float], ready: float, tasks: int, seconds: float
) -> None:
    unit = RKernel("k", (tasks,), (seconds,), 1.0)
    naive = NaiveProgram(list(clocks), ends={0: ready})
    naive.append(graph_of([0, 1]), (1,), {1: unit})
    ranges = select_lanes(clocks, ready, tasks, seconds)
    expected = counts(naive.appended)
    assert list(ranges) == [expected.get((1, 0, lane), 0) for lane in range(len(clocks))]


def naive_schedule(graph: OpGraph, kernels: Kernels, lanes: int) -> list[NaiveProgram]:
    """Algorithm 1, with its two slips repaired and copies where it says that programs differ."""

    def as_program(program: NaiveProgram) -> RProgram:
        rprogram = RProgram.empty(lanes)
        for wave in waves(graph.predecessors, program.chosen):
            rprogram = rprogram.append(graph, wave, program.chosen)
        assert counts_of(rprogram) == counts(program.appended)
        return rprogram

    def time(program: NaiveProgram) -> float:
        return by_chance([as_program(program)])[0]

    def work(kernel: RKernel) -> float:
        return sum(n * t for n, t in zip(kernel.tasks, kernel.task_seconds, strict=True))

    def least(unit: int, cost: Callable[[RKernel], float]) -> RKernel:
        """The unit's usual rKernel, unless another is better by more than 2 %."""
        usual, best = kernels[unit][0], min(kernels[unit], key=cost)
        return best if cost(best) < cost(usual) * 0.98 else usual

    def schedule_wave(wave: Sequence[int], program: NaiveProgram) -> NaiveProgram:
        fast = {u: least(u, lambda k: k.seconds) for u in wave}
        small = {u: least(u, work) for u in wave}
        one, other = program.copy(), program.copy()
        one.append(graph, wave, fast)
        other.append(graph, wave, small)
        if sum(max(k.tasks, default=0) for k in fast.values()) < lanes or fast == small:
            return one
        return other if time(other) < time(one) else one

    plans: list[NaiveProgram] = []
    current = NaiveProgram([0.0] * lanes)
    left = set(range(len(graph)))
    while left:
        wave = [u for u in sorted(left) if not set(bits(graph.predecessors[u])) & left]
        left -= set(wave)
        first = schedule_wave(wave, current.copy())
        second = schedule_wave(wave, NaiveProgram([0.0] * lanes))
        if not current.chosen or time(first) <= time(current) + time(second):
            current = first
        else:
            plans.append(current)
            current = second
    return [*plans, current]


@given(dags(8), st.integers(1, 4), st.data())
@examples(150)
def test_equals_algorithm_1_task_by_task(
    predecessors: tuple[int, ...], lanes: int, data: st.DataObject
) -> None:
    graph = graph_of(predecessors)
    kernels = data.draw(rkernels(len(graph)))
    compared: list[tuple[tuple[int, ...], ...]] = []

    def profile(programs: Sequence[RProgram]) -> list[float]:
        compared.append(tuple(program.units for program in programs))
        return by_chance(programs)

    rprograms = wavefront_programs(graph, kernels.__getitem__, lanes, profile)
    expected = naive_schedule(graph, kernels, lanes)
    assert [counts_of(p) for p in rprograms] == [counts(p.appended) for p in expected]
    assert [dict(p.kernels) for p in rprograms] == [p.chosen for p in expected]
    assert [p.ends for p in rprograms] == [p.ends for p in expected]
    assert [p.clocks for p in rprograms] == [tuple(p.clocks) for p in expected]
    # The last rProgram is kept, and no program is changed before its time is taken.
    assert sorted(u for p in rprograms for u in p.units) == list(range(len(graph)))
    for joined, current, alone in (units for units in compared if len(units) == 3):
        assert joined == (*current, *alone)
    schedule = rammer_schedule(graph, rprograms, by_chance(rprograms), kernels.__getitem__)
    schedule.validate(graph)
    for unit, names in kernels.items():
        name = next(p.kernels[unit].name for p in rprograms if unit in p.kernels)
        assert schedule.kernels.get(unit, names[0].name) == name
    assert schedule.latency == sum(by_chance(rprograms))


def code_of(graph: OpGraph, chosen: dict[int, RKernel]) -> dict[int, UnitCode]:
    """Phases that hand their results on through scratch; a unit of none has code for nothing."""
    vector = BufferType((4,))
    codes: dict[int, UnitCode] = {}
    for unit, kernel in chosen.items():
        data = len(dict.fromkeys(graph.operators[unit].inputs))
        phases = len(kernel.tasks)
        calls: list[PhaseCall] = []
        for phase, tasks in enumerate(kernel.tasks):
            reads = tuple(range(data)) if phase == 0 else (data + phase,)
            writes = data if phase == phases - 1 else data + phase + 1
            calls.append(PhaseCall(f"u{unit}.{phase}", tasks, (*reads, writes)))
        scratch = (vector,) * max(0, phases - 1)
        codes[unit] = UnitCode((vector,) * (data + 1), 1, scratch, tuple(calls))
    return codes


@given(dags(8), st.integers(1, 4), st.data())
@examples(150)
def test_the_simulation_is_what_a_device_of_exact_times_does(
    predecessors: tuple[int, ...], lanes: int, data: st.DataObject
) -> None:
    graph = graph_of(predecessors)
    kernels = data.draw(rkernels(len(graph)))
    # A unit of no code would not write its output.
    kernels = {u: tuple(k for k in ks if k.tasks) for u, ks in kernels.items()}
    kernels = {u: ks or (RKernel("k", (3,), (1.0,), 1.0),) for u, ks in kernels.items()}
    program = co_schedule(graph, range(len(graph)), kernels.__getitem__, lanes)
    schedule = rammer_schedule(graph, [program], simulate([program]), kernels.__getitem__)
    lowered = lower(graph, schedule, code_of(graph, dict(program.kernels)), lanes=lanes)
    check_races(lowered)
    done: list[list[float]] = [[0.0] for _ in range(lanes)]
    ends: dict[str, float] = {}
    for lane, _, finished, launch in ordered_launches(lowered):
        unit, phase = map(int, lowered.kernels[launch.kernel][1:].split("."))
        seconds = program.kernels[unit].task_seconds[phase]
        begin = max(done[other][count] for other, count in enumerate(finished))
        done[lane].append(max(begin, done[lane][-1]) + (launch.end - launch.begin) * seconds)
        ends[f"u{unit}"] = max(ends.get(f"u{unit}", 0.0), done[lane][-1])
    assert [times[-1] for times in done] == list(program.clocks)
    assert {f"u{unit}": end for unit, end in program.ends.items()} == ends
    assert simulate([program]) == (max(times[-1] for times in done),)
    ended = [0.0] * lanes
    for share, begin, end in simulated_spans(graph.predecessors, program):
        assert begin >= ended[share.lane]
        ended[share.lane] = end
    assert ended == list(program.clocks)


@given(dags(8), st.integers(1, 4), st.data())
@examples(60)
def test_a_part_of_a_graph_is_placed_as_it_is_alone(
    predecessors: tuple[int, ...], lanes: int, data: st.DataObject
) -> None:
    graph = graph_of(predecessors)
    kernels = data.draw(rkernels(len(graph)))
    units = data.draw(st.sets(st.integers(0, len(graph) - 1), min_size=1))
    program = co_schedule(graph, sorted(units), kernels.__getitem__, lanes)
    assert set(program.units) == units
    assert fault_of(graph, program.units, program.placement) is None
    groups = tuple((unit,) for unit in sorted(units, reverse=True))
    stage = stage_of(Strategy.CO_SCHEDULE, groups, graph.predecessors)
    assert stage.groups == (program.units,)
    assert stage_of(Strategy.CONCURRENT, groups, graph.predecessors).groups == groups


def test_efficient_rkernels_are_kept_only_if_the_profile_says_so() -> None:
    graph = graph_of([0, 0])
    fast = RKernel("fast", (8,), (2.0,), seconds=1.0)
    lean = RKernel("lean", (2,), (3.0,), seconds=2.0)

    def chosen(seconds: list[float], lanes: int) -> set[str]:
        empty = RProgram.empty(lanes)
        program = schedule_wave(graph, (0, 1), empty, lambda _: (fast, lean), lambda _: seconds)
        return {kernel.name for kernel in program.kernels.values()}

    assert chosen([2.0, 1.0], lanes=4) == {"lean"}
    assert chosen([1.0, 1.0], lanes=4) == {"fast"}
    # Sixteen rTasks leave one of seventeen lanes free.
    assert chosen([2.0, 1.0], lanes=17) == {"fast"}
    assert chosen([2.0, 1.0], lanes=16) == {"lean"}


def test_a_long_chain_is_one_program_when_it_is_simulated() -> None:
    graph = graph_of([0, *(1 << unit for unit in range(30))])
    kernels = (RKernel("k", (3, 7), (0.1, 0.3), 1.0),)
    assert len(wavefront_programs(graph, lambda _: kernels, lanes=2)) == 1
    assert len(wavefront_programs(graph, lambda _: kernels, lanes=2, profile=by_chance)) > 1


def test_nothing_is_scheduled_as_no_program() -> None:
    assert wavefront_programs(graph_of([]), lambda _: (), lanes=2) == ()


def test_co_scheduled_stages_get_their_placements() -> None:
    graph = graph_of([0, 0, 0b11])
    usual, lean = RKernel("usual", (4,), (2.0,), 2.0), RKernel("lean", (2,), (1.0,), 1.0)
    stages = (Stage(Strategy.CO_SCHEDULE, ((0, 1),)), Stage(Strategy.CONCURRENT, ((2,),)))

    def kernels(unit: int) -> tuple[RKernel, ...]:
        return (usual,) if unit == 0 else (usual, lean)

    placed = with_placements(
        Schedule(graph.fingerprint, stages, "ios-holistic"),
        lambda stage: co_schedule(graph, stage.units, kernels, lanes=2),
        kernels,
    )
    placed.validate(graph)
    assert placed.stages[0].placement is not None
    assert placed.stages[1] == stages[1]
    assert placed.kernels == {1: "lean"}
