from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tests.random_units import Case, cases
from tvm_ios.explain.bounds import memory_traffic
from tvm_ios.explain.tasks import Work, find_work
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.happens_before import ordered_launches
from tvm_ios.program.lower import lower
from tvm_ios.program.program import BufferType, Launch, Part, PhaseCall, Program, Role, UnitCode
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import sequential_stages


def closure(work: Work) -> list[set[int]]:
    """For each task all that must be done before it."""
    before: list[set[int]] = []
    for task in work.tasks:
        before.append(set(task.needs).union(*(before[need] for need in task.needs)))
    return before


def true_needs(case: Case, program: Program, work: Work) -> set[tuple[int, int]]:
    """Pairs of tasks of which the second reads what the first wrote, by the units' own code."""
    name_of = {unit: op.name for unit, op in enumerate(case.graph.operators)}
    codes: dict[str, UnitCode] = {name_of[unit]: code for unit, code in case.code.items()}
    for stage, code in case.merged.items():
        codes["+".join(name_of[unit] for unit in stage.units)] = code
    uses: list[tuple[set[int], set[int]]] = []
    for task in work.tasks:
        code = codes[program.units[task.unit]]
        call = next(c for c in code.calls if c.symbol == task.kernel)
        first_output = len(code.parameters) - code.outputs
        lane, place = task.launches[0]
        launch = [item for item in program.lanes[lane] if isinstance(item, Launch)][place]
        pairs = list(zip(launch.buffers, call.arguments, strict=True))
        uses.append(
            (
                {buffer for buffer, argument in pairs if argument < first_output},
                {buffer for buffer, argument in pairs if argument >= first_output},
            )
        )
    tasks = work.tasks
    return {
        (i, j)
        for i, j in combinations(range(len(tasks)), 2)
        if uses[i][1] & uses[j][0] or (tasks[i].unit == tasks[j].unit and uses[i][1] & uses[j][1])
    }


@given(cases(), st.integers(1, 4))
def test_tasks_need_what_the_code_says(case: Case, lanes: int) -> None:
    program = lower(case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes)
    work = find_work(program)
    needs = {(need, number) for number, task in enumerate(work.tasks) for need in task.needs}
    assert needs == true_needs(case, program, work)


@given(cases(), st.integers(1, 4))
def test_the_waits_enforce_every_need(case: Case, lanes: int) -> None:
    program = lower(case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes)
    work = find_work(program)
    counts = {(lane, done - 1): counts for lane, done, counts, _ in ordered_launches(program)}
    assert sorted(counts) == sorted(place for task in work.tasks for place in task.launches)
    for number, before in enumerate(closure(work)):
        for need in before:
            for lane, place in work.tasks[need].launches:
                for launch in work.tasks[number].launches:
                    assert counts[launch][lane] > place


@given(cases(), st.integers(1, 3))
def test_the_units_form_the_graph_that_was_scheduled(case: Case, lanes: int) -> None:
    program = lower(case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes)
    graph = find_work(program).unit_graph
    place = {member: unit for unit, name in enumerate(program.units) for member in name.split("+")}
    expected = [0] * len(program.units)
    for unit, op in enumerate(case.graph.operators):
        for other, source in enumerate(case.graph.operators):
            if case.graph.predecessors[unit] >> other & 1:
                expected[place[op.name]] |= 1 << place[source.name]
    assert list(graph.predecessors) == expected
    names = [b.name for b in program.buffers if b.role is Role.OUTPUT]
    assert [graph.tensors[t].name for t in graph.outputs] == names


def test_units_without_launches_join_what_others_wrote() -> None:
    """One concatenation of two, one of that and a third, and one that copies an input itself."""
    tensors = ("x", "a", "b", "ab", "c", "abc", "d", "cx", "y")
    number = {name: n for n, name in enumerate(tensors)}
    reads = {"a": ["x"], "b": ["x"], "ab": ["a", "b"], "c": ["ab"], "abc": ["ab", "c"]}
    reads |= {"d": ["abc", "a"], "cx": ["d", "x"], "y": ["cx", "abc"]}
    graph = OpGraph(
        "model",
        tuple(
            Operator(name, "unit", tuple(number[t] for t in inputs), (number[name],))
            for name, inputs in reads.items()
        ),
        tuple(Tensor(name, (2, 10)) for name in tensors),
        (number["x"],),
        (number["y"],),
    )
    whole = BufferType((2, 10))
    code = {}
    for unit, (name, inputs) in enumerate(reads.items()):
        joins = name in ("ab", "abc")
        # The last concatenation writes what is not in place, and reads only that.
        arguments = (1, 2) if name == "cx" else tuple(range(len(inputs) + 1))
        calls = () if joins else (PhaseCall(f"k{name}", 4, arguments),)
        code[unit] = UnitCode((whole,) * (len(inputs) + 1), 1, (), calls)
    places = {"a": ("abc", 0, 3), "b": ("abc", 3, 6), "ab": ("abc", 0, 6), "c": ("abc", 6, 10)}
    places["d"] = ("cx", 0, 5)
    parts = {number[n]: Part(number[of], 1, a, b) for n, (of, a, b) in places.items()}
    schedule = Schedule(graph.fingerprint, sequential_stages(graph), "test")
    program = lower(graph, schedule, code, lanes=2, parts=parts)
    work = find_work(program)
    unit_graph = work.unit_graph
    names = {
        op.name: [unit_graph.tensors[t].name for t in op.inputs] for op in unit_graph.operators
    }
    expected = {name: set(inputs) for name, inputs in reads.items()}
    expected["abc"] = {"a", "b", "c"}  # as they were written
    assert {name: set(inputs) for name, inputs in names.items()} == expected
    size = {b.name: n for b, n in zip(program.buffers, work.buffer_bytes, strict=True)}
    assert (size["a"], size["ab"], size["c"], size["abc"]) == (24, 48, 32, 80)
    # The whole, read after its parts were written, is in the cache.
    assert sum(memory_traffic(work, 10_000)) == 0


def test_a_kernel_that_runs_twice_on_the_same_buffers_is_two_tasks() -> None:
    from tests.random_units import VECTOR
    from tvm_ios.program.program import Buffer

    launches = [Launch(0, (0, 1), begin, begin + 1, 0) for begin in (0, 1)]
    lanes = ((launches[0], launches[0]), (launches[1], launches[1]))
    buffers = (Buffer("x", VECTOR, Role.INPUT), Buffer("y", VECTOR, Role.OUTPUT))
    work = find_work(Program(lanes, ("k",), buffers, ("u",)))
    assert [task.launches for task in work.tasks] == [((0, 0), (1, 0)), ((0, 1), (1, 1))]
    assert [task.needs for task in work.tasks] == [frozenset(), frozenset({0})]
    assert work.nbytes(0) == 2 * 12 * 8
