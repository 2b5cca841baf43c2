"""The pass for memory on Relay: order, memory and result of what it makes."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relay

from relay_passes import IOSSchedule, MemorySchedule, schedule_of
from relay_passes.pipeline import prepare
from relay_passes.relay.memory_order import stages_of
from runtime_ext.ir_form import ModuleError
from runtime_ext.relay.build import build as build_program
from runtime_ext.relay.scheduled_main import read_scheduled_main
from tests.onnx_sketch import relative_error
from tests.refusals import refused
from tests.relay.relay_sketch import RelaySketch, branches, build, kernels, module_of, run
from tvm_ios.errors import MemoryBudgetError
from tvm_ios.memory.footprint import Counting
from tvm_ios.memory.problem import memory_problem
from tvm_ios.memory.stage_order import stage_problem


def wide_then_narrow(s: RelaySketch, x: Any) -> Any:
    """A branch that ends in 16 channels, then one that has 64 in between and ends in one."""
    first = relay.nn.relu(s.bias(s.conv(x, 3, 16), 16))
    between = relay.sigmoid(s.bias(s.conv(x, 3, 64), 64))
    second = relay.tanh(s.bias(s.conv(between, 64, 1), 1))
    return relay.nn.softmax(relay.concatenate([first, second], axis=1), axis=1)


@pytest.fixture(scope="module")
def module() -> tvm.IRModule:
    return module_of([(1, 3, 8, 8)], wide_then_narrow)


@pytest.fixture(scope="module")
def scheduled(module: tvm.IRModule) -> tvm.IRModule:
    return IOSSchedule("sequential")(module)


#: The units of the wide branch.
WIDE = ["conv2d_3", "conv2d_6"]


def calls_of(module: tvm.IRModule) -> list[Any]:
    """Unit, stage and group of each call of a scheduled module."""
    return list(read_scheduled_main(module).places)


def order_of(module: tvm.IRModule) -> list[str]:
    """The units of a scheduled module as they are called."""
    return list(dict.fromkeys(unit for unit, *_ in calls_of(module)))


@pytest.mark.slow
def test_stages_move_whole_and_the_arena_shrinks(
    module: tvm.IRModule, scheduled: tvm.IRModule
) -> None:
    made = MemorySchedule()(scheduled)
    assert order_of(scheduled) == ["conv2d_0", *WIDE, "concat_9"]
    assert order_of(made) == [*WIDE, "conv2d_0", "concat_9"]
    stages = [stage for _, stage, _ in calls_of(made)]
    assert stages == sorted(stages), "the kernels of a stage stay together"
    assert {unit: stage for unit, stage, _ in calls_of(made)} == {
        unit: stage for stage, unit in enumerate([*WIDE, "conv2d_0", "concat_9"])
    }
    schedule = schedule_of(made)
    assert schedule is not None
    schedule.validate(prepare(module).units)
    assert relative_error(run(made), run(module)) <= 1e-5
    old, new = build_program(scheduled, lanes=1), build_program(made, lanes=1)
    assert new.memory.plan.nbytes < old.memory.plan.nbytes


def test_a_module_without_a_schedule_gets_one_in_the_best_order(module: tvm.IRModule) -> None:
    made = MemorySchedule()(module)
    assert len(kernels(build(made))) == len(calls_of(made))
    assert order_of(made) == [*WIDE, "conv2d_0", "concat_9"]
    assert relative_error(run(made), run(module)) <= 1e-5
    tvm.ir.assert_structural_equal(MemorySchedule()(made), made)
    assert MemorySchedule(counting=Counting(in_place=True))(module)


def test_calls_are_read_with_tuples_and_merged_units() -> None:
    """The peak of the stages read from the IR is that of the units."""

    def body(s: RelaySketch, x: Any) -> Any:
        low, high = relay.split(branches(s, x), [9], axis=1)
        return relay.nn.relu(low), relay.exp(high)

    module = module_of([(1, 3, 9, 9)], body)
    graph, stages = stages_of(IOSSchedule("sequential")(module))
    units = prepare(module).units
    assert [t.shape for t in map(graph.tensors.__getitem__, graph.outputs)] == [
        units.tensors[t].shape for t in units.outputs
    ]
    assert len(stages) == len(units)
    plain = memory_problem(units)
    problem, _ = stage_problem(graph, stages)
    outside = sum(graph.tensors[t].nbytes for t in (*graph.inputs, *graph.outputs))
    inner = problem.footprints(range(len(problem))).peak
    assert inner <= plain.footprints(range(len(units))).peak <= inner + outside
    made = MemorySchedule()(IOSSchedule(cost="v100")(module))
    assert relative_error(run(made), run(module)) <= 1e-5


def test_a_budget_is_kept_or_refused(module: tvm.IRModule, scheduled: tvm.IRModule) -> None:
    for given in (module, scheduled):
        with refused(MemoryBudgetError, "main", 4):
            MemorySchedule(budget=4096)(given)
        assert MemorySchedule(budget=1 << 20)(given)


def test_calls_that_a_later_pass_changed_are_refused(scheduled: tvm.IRModule) -> None:
    changed = relay.transform.ToGraphNormalForm()(scheduled)
    with refused(ModuleError, "pass", "IOSSchedule"):
        build_program(changed, lanes=1)
    # It has the operators yet, and gets an order of its own.
    assert order_of(MemorySchedule()(changed)) != []
