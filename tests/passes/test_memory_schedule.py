"""Modules in the order of least peak memory: what they look like, compute and take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import runtime_ext.execution.host_memory
from relay_passes import IOSSchedule, MemorySchedule, apply_schedule, prepare, schedule_of
from relay_passes.relax.importer import import_onnx
from runtime_ext.build import build
from runtime_ext.execution.built_model import BuiltModel
from tests.fast_run import only
from tests.onnx_sketch import relative_error
from tests.refusals import refused
from tests.relax.ir_text import filecheck
from tests.relax.relax_sketch import (
    RelaxSketch,
    inputs_of,
    module_of,
    outputs_of,
    require_same_outputs,
    run,
)
from tvm_ios.errors import MemoryBudgetError, UserError
from tvm_ios.memory.footprint import Counting
from tvm_ios.models.load import load_onnx
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy

op = relax.op


def wide_then_narrow(s: RelaxSketch, x: Any) -> Any:
    """A branch that ends in 16 channels, then one that has 64 in between and ends in one.

    A depth-first walk runs them in this order; the other one needs less memory.
    """
    first = s.emit(op.nn.relu(s.bias(s.conv(x, 16))))
    between = s.emit(op.sigmoid(s.bias(s.conv(x, 64))))
    second = s.bias(s.conv(between, 1))
    return s.emit(op.nn.softmax(s.emit(op.concat([first, second], axis=1)), axis=1))


@pytest.fixture(scope="module")
def module() -> tvm.IRModule:
    return module_of([(1, 3, 8, 8)], wide_then_narrow)


def test_operators_are_reordered(module: tvm.IRModule, tmp_path: Path) -> None:
    """The wide branch comes first, and a bias stays with its convolution."""
    checks = """
    CHECK: def main(x0: f32(1, 3, 8, 8))
    CHECK: f32(1, 64, 8, 8) = R.nn.conv2d(x0,
    CHECK-NEXT: f32(1, 64, 8, 8) = R.add(
    CHECK-NEXT: f32(1, 64, 8, 8) = R.sigmoid(
    CHECK-NEXT: f32(1, 1, 8, 8) = R.nn.conv2d(
    CHECK-NEXT: f32(1, 1, 8, 8) = R.add(
    CHECK-NEXT: f32(1, 16, 8, 8) = R.nn.conv2d(x0,
    CHECK-NEXT: f32(1, 16, 8, 8) = R.add(
    CHECK-NEXT: R.nn.relu(
    CHECK-NEXT: R.concat(
    """
    filecheck(MemorySchedule()(module), checks, tmp_path)


def test_the_pass_is_idempotent_and_changes_no_result(module: tvm.IRModule) -> None:
    reordered = MemorySchedule()(module)
    tvm.ir.assert_structural_equal(MemorySchedule()(reordered), reordered)
    inputs = inputs_of(module)
    for ours, theirs in zip(run(reordered, inputs), run(module, inputs), strict=True):
        assert np.array_equal(ours, theirs)


def several(s: RelaxSketch, x: Any) -> Any:
    """A split whose parts are used apart, an alias of a reshape, and two outputs."""
    parts = s.emit(op.split(x, 2, axis=1))
    left = s.emit(relax.TupleGetItem(parts, 0))
    right = s.emit(relax.TupleGetItem(parts, 1))
    wide = s.emit(op.nn.relu(s.conv(left, 32)))
    same = s.emit(op.reshape(wide, (1, 32, 8, 8)))
    return s.conv(s.emit(op.sigmoid(same)), 2), s.emit(op.add(right, s.conv(left, 2)))


def test_tuples_and_aliases_move_with_their_readers() -> None:
    module = module_of([(1, 4, 8, 8)], several)
    reordered = MemorySchedule(counting=Counting(in_place=True))(module)
    inputs = inputs_of(module)
    for ours, theirs in zip(run(reordered, inputs), run(module, inputs), strict=True):
        assert relative_error([ours], [theirs]) <= 1e-5


@pytest.mark.parametrize("scheduled", [False, True])
def test_a_budget_that_cannot_be_met_is_refused_in_one_sentence(
    module: tvm.IRModule, scheduled: bool
) -> None:
    given = IOSSchedule("sequential")(module) if scheduled else module
    with pytest.raises(MemoryBudgetError) as refused:
        MemorySchedule(budget=4096)(given)
    sentence = str(refused.value)
    assert "does not fit into 4.0 KiB" in sentence
    assert "no order needs less than" in sentence
    assert MemorySchedule(budget=1 << 20)(given)


def test_an_unknown_scheduler_is_refused() -> None:
    with refused(UserError, "'fifo'", "rpo"):
        MemorySchedule(scheduler="fifo")


def test_stages_are_reordered_with_their_attributes_and_schedule(
    module: tvm.IRModule, tmp_path: Path
) -> None:
    pipeline = tvm.transform.Sequential(
        [relax.transform.Normalize(), IOSSchedule("sequential"), MemorySchedule()]
    )
    reordered = pipeline(module)
    filecheck(
        reordered,
        """
        CHECK: "ios.stage": 2
        CHECK: "ios.stage": 0
        CHECK: "ios.stage": 1
        CHECK: "ios.stage": 3
        CHECK: def main(
        CHECK: cls.unit_1_
        CHECK-NEXT: cls.unit_2_
        CHECK-NEXT: cls.unit_0_
        CHECK-NEXT: cls.unit_3_
        """,
        tmp_path,
    )
    schedule = schedule_of(reordered)
    assert schedule is not None
    schedule.validate(prepare(module).units)
    assert schedule.stages != sequential_schedule(prepare(module).units).stages
    tvm.ir.assert_structural_equal(MemorySchedule()(reordered), reordered)
    require_same_outputs(reordered, module)


def test_a_policy_of_its_own_does_the_same(module: tvm.IRModule) -> None:
    by_policy = build(IOSSchedule("memory")(module), lanes=1)
    by_pass = build(MemorySchedule()(IOSSchedule("sequential")(module)), lanes=1)
    assert by_policy.memory.plan.nbytes == by_pass.memory.plan.nbytes


def test_the_arena_of_the_executable_shrinks_and_no_bit_changes(module: tvm.IRModule) -> None:
    plain = IOSSchedule("sequential")(module)
    before, after = build(plain, lanes=1), build(MemorySchedule()(plain), lanes=1)
    assert after.memory.plan.nbytes < before.memory.plan.nbytes
    inputs = inputs_of(module)
    for ours, theirs in zip(outputs_of(after, inputs), outputs_of(before, inputs), strict=True):
        assert np.array_equal(ours, theirs)


def test_merged_and_concurrent_stages_move_as_wholes() -> None:
    """Two merged convolutions, then a wide one beside a pool, which the best order has first."""

    def body(s: RelaxSketch, x: Any) -> Any:
        twins = [s.conv(x, 8, (1, 1)), s.conv(x, 8, (1, 1))]
        wide, pool = s.conv(x, 64), s.emit(op.nn.max_pool2d(x, (3, 3), padding=(1, 1)))
        narrow = s.emit(op.add(s.conv(wide, 1), s.conv(pool, 1)))
        return s.emit(op.nn.softmax(s.emit(op.concat([*twins, narrow], axis=1)), axis=1))

    module = module_of([(1, 6, 8, 8)], body)
    prepared = prepare(module)
    units = prepared.units
    channels = [units.tensors[op.outputs[0]].shape[1] for op in units.operators]
    first, second = (unit for unit, count in enumerate(channels) if count == 8)
    wide, pool = channels.index(64), channels.index(6)
    stages = [
        Stage(Strategy.MERGE, ((first,), (second,))),
        Stage(Strategy.CONCURRENT, ((wide,), (pool,))),
    ]
    rest = [unit for unit in range(len(units)) if unit not in (first, second, wide, pool)]
    stages += [Stage(Strategy.CONCURRENT, ((unit,),)) for unit in rest]
    untimed = Schedule(units.fingerprint, tuple(stages), "by hand")
    given = untimed.with_latencies((1.0, 2.0, *(3.0,) * len(rest)))
    reordered = MemorySchedule()(apply_schedule(prepared, given))
    moved = schedule_of(reordered)
    assert moved is not None
    moved.validate(units)
    assert moved.stages[0] == stages[1]
    assert moved.latencies[0] == 2.0
    assert set(moved.stages) == set(stages)
    inputs = inputs_of(module)
    assert (
        relative_error(outputs_of(build(reordered, lanes=2), inputs), run(module, inputs)) <= 1e-4
    )


@pytest.mark.parametrize("policy", only(["memory"], ["sequential", "memory"]))
def test_the_measured_arena_is_the_planned_one(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run writes up to the last bytes of the arena, and no other memory is taken for tensors."""
    built = build(IOSSchedule(policy)(import_onnx(load_onnx("nasnet_cell"))), lanes=1)
    assert highest_byte_written(built, monkeypatch) == built.memory.plan.nbytes


def highest_byte_written(built: BuiltModel, monkeypatch: pytest.MonkeyPatch) -> int:
    """Of the one arena that a session allocates, rounded up to 64."""
    taken: list[Any] = []
    allocate = runtime_ext.execution.host_memory.allocate_bytes

    def recording(nbytes: int) -> Any:
        taken.append(allocate(nbytes))
        return taken[-1]

    monkeypatch.setattr(runtime_ext.execution.host_memory, "allocate_bytes", recording)
    session = built.session()
    (arena,) = taken
    arena[:] = 0xA5
    session.run(**session.random_inputs(0))
    session.close()
    changed = np.flatnonzero(np.asarray(arena) != 0xA5)
    return -(-(int(changed[-1]) + 1) // 64) * 64
