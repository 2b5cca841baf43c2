"""Sessions whose buffers share one arena compute what sessions without one compute, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relax.importer import import_onnx
from runtime_ext.build import build
from runtime_ext.execution.session import Session
from tests.fast_run import examples, only
from tests.random_units import Case, cases, random_inputs
from tests.refusals import refused
from tvm_ios.files.array_files import Array
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.models.load import load_onnx
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.program.arena.check import check_arena
from tvm_ios.program.arena.planner import plan_memory
from tvm_ios.program.happens_before import RaceError
from tvm_ios.program.lower import lower
from tvm_ios.program.memory_plan import MemoryPlan, planned_buffers
from tvm_ios.program.program import BufferType, Part, PhaseCall, Program, Role, UnitCode
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy


def results(session: Session, inputs: dict[str, Array]) -> list[bytes]:
    session.set_input(**inputs)
    for _ in range(2):
        session.run()
    outputs = [session.get_output(place).tobytes() for place in range(len(session.outputs))]
    session.close()
    return outputs


@examples(60)
@given(cases(), st.integers(1, 8), st.integers(0, 1000))
def test_random_programs_in_poisoned_memory(case: Case, lanes: int, seed: int) -> None:
    program = lower(case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes)
    plan = plan_memory(program).plan
    assert poisoned(case, program, plan, seed) == expected(case, program)
    native = Session(program, case.functions(random.Random(seed)), case.constants, plan=plan)
    assert results(native, random_inputs(case.graph, 7)) == expected(case, program)


@examples(60)
@given(cases(), st.integers(1, 4), st.data())
def test_whatever_the_check_allows_does_no_harm(
    case: Case, lanes: int, data: st.DataObject
) -> None:
    program = lower(case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes)
    memory = plan_memory(program)
    offsets = dict(memory.plan.offsets)
    some = st.lists(st.sampled_from([*offsets]), max_size=3) if offsets else st.just([])
    for buffer in data.draw(some):
        offsets[buffer] = 64 * data.draw(st.integers(0, memory.plan.nbytes // 64))
    plan = MemoryPlan(memory.plan.nbytes + 128, offsets)
    try:
        check_arena(program, plan)
    except RaceError:
        return
    seed = data.draw(st.integers(0, 1000))
    assert poisoned(case, program, plan, seed) == expected(case, program)


def poisoned(case: Case, program: Program, plan: MemoryPlan, seed: int) -> list[bytes]:
    functions, constants = case.functions(), case.constants
    session = Session(program, functions, constants, plan=plan, executor="poisoning", seed=seed)
    return results(session, random_inputs(case.graph, 7))


def expected(case: Case, program: Program) -> list[bytes]:
    values = case.expected(random_inputs(case.graph, 7))
    return [values[b.name].tobytes() for b in program.buffers if b.role is Role.OUTPUT]


NUMBERS = BufferType((2, 10))


def concatenation(lanes: int) -> Program:
    """Two producers write into the parts of a whole that a third unit reads; twice in a row."""
    operators: list[Operator] = []
    names = ["x"]
    source = 0
    for turn in range(2):
        left, right, whole, after = range(len(names), len(names) + 4)
        names += [f"{name}{turn}" for name in ("left", "right", "whole", "after")]
        operators += [
            Operator(f"f{turn}", "unit", (source,), (left,)),
            Operator(f"g{turn}", "unit", (source,), (right,)),
            Operator(f"concat{turn}", "unit", (left, right), (whole,)),
            Operator(f"h{turn}", "unit", (whole,), (after,)),
        ]
        source = after
    tensors = tuple(Tensor(name, (2, 10)) for name in names)
    graph = OpGraph("model", tuple(operators), tensors, (0,), (source,))

    def code(symbol: str, parameters: int) -> UnitCode:
        calls = (PhaseCall(symbol, 2, tuple(range(parameters))),) if symbol else ()
        return UnitCode((NUMBERS,) * parameters, 1, (), calls)

    stages = [
        stage
        for first in (0, 4)
        for stage in (
            Stage(Strategy.CONCURRENT, ((first,), (first + 1,))),
            Stage(Strategy.CONCURRENT, ((first + 2,),)),
            Stage(Strategy.CONCURRENT, ((first + 3,),)),
        )
    ]
    codes = [code("f", 2), code("g", 2), code("", 3), code("h", 2)]
    return lower(
        graph,
        Schedule(graph.fingerprint, tuple(stages), policy="test"),
        dict(enumerate(codes * 2)),
        lanes=lanes,
        parts={
            tensor + shift: Part(3 + shift, 1, begin, end)
            for shift in (0, 4)
            for tensor, begin, end in ((1, 0, 4), (2, 4, 10))
        },
    )


def scaled(columns: slice, factor: float) -> Any:
    def function(x: Any, y: Any, begin: int, end: int) -> None:
        np.from_dlpack(y)[begin:end, columns] = np.from_dlpack(x)[begin:end, columns] * factor + 1

    return function


@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_parts_live_and_die_with_their_whole(lanes: int) -> None:
    program = concatenation(lanes)
    planned = {program.buffers[b].name for b in planned_buffers(program)}
    assert planned == {"whole0", "after0", "whole1"}
    functions = {
        "f": scaled(slice(0, 4), 2),
        "g": scaled(slice(4, 10), 3),
        "h": scaled(slice(None), 5),
    }
    inputs = {"x": np.arange(20, dtype="float32").reshape(2, 10)}
    apart = results(Session(program, functions, {}), inputs)
    memory = plan_memory(program)
    # Of the two wholes one is needed at a time, beside the tensor between them.
    assert (memory.plan.nbytes, memory.unshared, memory.proven) == (2 * 128, 3 * 128, True)
    for seed in range(10):
        session = Session(program, functions, {}, plan=memory.plan, executor="poisoning", seed=seed)
        assert results(session, inputs) == apart
    whole, after, last = planned_buffers(program)
    wrong = MemoryPlan(256, {whole: 0, after: 0, last: 128})
    with refused(RaceError, "'whole0'", "'after0'"):
        check_arena(program, wrong)
    spoilt = Session(program, functions, {}, plan=wrong, executor="poisoning")
    assert results(spoilt, inputs) != apart


@pytest.mark.parametrize("schedule_of", [sequential_schedule, greedy_schedule])
@pytest.mark.parametrize(
    "network",
    only(
        ["inception_block", "lstm_small"],
        ["inception_block", "nasnet_cell", "lstm_small", "transformer_small"],
    ),
)
def test_networks_in_poisoned_memory(
    network: str, schedule_of: Callable[[OpGraph], Schedule]
) -> None:
    prepared = prepare(import_onnx(load_onnx(network)), network)
    schedule = schedule_of(prepared.units)
    model = build(apply_schedule(prepared, schedule), lanes=2)
    assert model.memory.plan.nbytes < model.memory.unshared
    assert model.memory.proven
    check_arena(model.program, model.memory.plan)
    functions = {symbol: model.kernels.function(symbol) for symbol in model.program.kernels}
    apart = Session(model.program, functions, model.constants, model.inputs, model.outputs)
    inputs = apart.random_inputs(0)
    unplanned = results(apart, inputs)
    assert results(model.session(), inputs) == unplanned
    for seed in range(3):
        assert results(model.session(executor="poisoning", seed=seed), inputs) == unplanned
