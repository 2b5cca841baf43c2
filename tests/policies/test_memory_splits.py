"""Splits into instances that a memory budget asks for: counted, found, built and run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from tests.graphturbo.onnx_networks import Sketch
from tests.refusals import refused
from tvm_ios.api import Options, load, optimize
from tvm_ios.api.result import Result
from tvm_ios.costs.costs import NO_COSTS
from tvm_ios.errors import MemoryBudgetError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.units import form_units
from tvm_ios.graphturbo.instance_memory import schedule_peak
from tvm_ios.graphturbo.memory_splits import MemorySplits
from tvm_ios.ios.stage_memory import stages_peak
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.policies.policy import Limits, Problem
from tvm_ios.schedule.schedule import UNROLLED_FROM, Schedule
from tvm_ios.search import search


def bottlenecks(batch: int, rows: int = 16) -> Any:
    """A chain whose inner tensors are large, and two branches of a sum at its end."""
    sketch = Sketch((batch, 3, rows, rows))

    def conv(x: str, read: int, made: int, stride: int = 1, kernel: int = 3) -> str:
        weight = sketch.weight(made, read, kernel, kernel)
        pads, strides = [kernel // 2] * 4, [stride, stride]
        return sketch.op("Relu", sketch.op("Conv", x, weight, pads=pads, strides=strides))

    x = conv(conv("x", 3, 16), 16, 4, 2)
    y = conv(conv(x, 4, 24), 24, 4)
    z = conv(conv(x, 4, 24, kernel=1), 24, 4)
    return sketch.model(conv(sketch.op("Add", y, z), 4, 2, 4))


def problem(batch: int) -> Problem:
    operators = graph_from_onnx(bottlenecks(batch))
    return Problem.of(form_units(operators), 40, operators)


def least_of_orders(of: Problem) -> int:
    return stages_peak(of.units, search(of, "memory", NO_COSTS).schedule.stages)


def within(of: Problem, budget: int) -> Schedule:
    return search(of, "memory", NO_COSTS, Limits(memory_budget=budget)).schedule


@pytest.mark.parametrize(("batch", "part"), [(1, 0.6), (4, 0.6), (4, 0.3)])
def test_a_budget_below_every_order_is_kept_by_instances(batch: int, part: float) -> None:
    of = problem(batch)
    budget = int(part * least_of_orders(of))
    schedule = within(of, budget)
    schedule.validate(of.units)
    assert schedule.instances is not None
    assert schedule_peak(of.units, schedule, of.operators) <= budget
    # Where an order fits, nothing is split.
    assert within(of, least_of_orders(of)).instances is None


def test_what_does_not_fit_is_refused_with_the_smallest_split() -> None:
    of = problem(4)
    assert of.operators is not None
    tried = [split for step in MemorySplits(of.operators, of.units).steps() for split in step]
    smallest = min(tried, key=lambda split: split.peak)
    names = (len(tried), str(smallest), "memory budget")
    with refused(MemoryBudgetError, *names):
        within(of, smallest.peak - 1)
    assert schedule_peak(of.units, within(of, smallest.peak), of.operators) == smallest.peak
    # Units whose operators nobody knows are ordered alone.
    alone = Problem(of.units, of.blocks)
    with refused(MemoryBudgetError, "memory budget"):
        within(alone, least_of_orders(of) - 1)


def test_parts_of_a_batch_need_what_a_smaller_batch_does() -> None:
    """All of a network in so many parts: one after another, or each lane its own ones."""
    of, one = problem(4), problem(1)
    assert of.operators is not None
    least = least_of_orders(one)
    whole = [
        split
        for step in MemorySplits(of.operators, of.units, lanes=2).steps()
        for split in step
        if (plan := split.schedule.instances) is not None
        and [(len(s.units), s.factor, s.axes[0]) for s in plan.subgraphs] == [(len(of.units), 4, 0)]
    ]
    assert {split.on_lanes: split.peak for split in whole} == {False: least, True: 2 * least}


def peak_by_hand(units: OpGraph, schedule: Schedule) -> int:
    """Bytes of a schedule without instances, stage by stage, from sets of what is needed."""
    outside = {*units.inputs, *units.outputs}
    most, done = 0, set[int]()
    for stage in schedule.stages:
        now = set(stage.units)
        made = {t for u in now | done for t in units.operators[u].outputs}
        needed = {
            t for t in made if set(units.consumers[t]) - done or units.producer[t] in now
        } - outside
        most = max(most, sum(units.tensors[t].nbytes for t in needed))
        done |= now
    return most


def test_without_instances_nothing_else_is_counted() -> None:
    of = problem(2)
    schedule = search(of, "memory", NO_COSTS).schedule
    assert schedule_peak(of.units, schedule) == peak_by_hand(of.units, schedule)


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "rows"), [(1, 64), (4, 16)])
def test_programs_fit_and_compute_the_same(batch: int, rows: int, tmp_path: Path) -> None:
    from relay_passes.search_options import SearchOptions

    model = bottlenecks(batch, rows)
    onnx.save(onnx.shape_inference.infer_shapes(model), tmp_path / "m.onnx")

    def compiled(budget: int | None) -> Result:
        options = SearchOptions(lanes=2)
        how = Options(search=options, cost="cpu", policies=("memory",), memory_budget=budget)
        return optimize(tmp_path / "m.onnx", tmp_path / "out", how)

    budget = int(0.75 * compiled(None).memory.plan.nbytes)
    assert compiled(budget).memory.plan.nbytes <= budget
    assert UNROLLED_FROM in json.loads((tmp_path / "out" / "schedule.json").read_text())
    x = np.random.default_rng(0).standard_normal((batch, 3, rows, rows), dtype=np.float32)
    session = load(tmp_path / "out").session()
    session.run(x=x)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(session.get_output(0), expected, rtol=1e-4, atol=1e-3)
