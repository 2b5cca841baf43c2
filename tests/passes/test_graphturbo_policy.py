from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import relax

from relay_passes.pipeline import apply_schedule, prepare
from runtime_ext.build import build
from runtime_ext.scheduled_module import read_scheduled_module
from runtime_ext.units.in_place import arrange
from tests.fast_run import one_in
from tests.graphturbo_policy import Unrolled, graphturbo_policy
from tests.refusals import refused
from tests.relax.relax_sketch import (
    LANES,
    RelaxSketch,
    inputs_of,
    module_of,
    outputs_of,
    pyramid,
    run,
)
from tvm_ios.schedule.schedule import ScheduleError
from tvm_ios.schedule.stage import Strategy


def unrolled(module: Any, capacity: int, lanes: int = LANES) -> Unrolled:
    return graphturbo_policy(prepare(module), lanes=lanes, capacity=capacity)


# An image of the first stage takes 6 KB at its peak, one of the second 2.5 KB: the least
# capacity splits both into single images.
@pytest.mark.parametrize("capacity", one_in(2, [14_000, 3000]))
def test_lanes_of_instances_compute_the_same(capacity: int) -> None:
    module = module_of([(8, 3, 8, 8)], pyramid(8))
    result = unrolled(module, capacity)
    model = build(apply_schedule(prepare(module), result.planned), lanes=LANES)
    inputs = inputs_of(module)
    for executor in ("native", "poisoning"):
        outputs = outputs_of(model, inputs, executor=executor)
        for output, expected in zip(outputs, run(module, inputs), strict=True):
            np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)


def fires(sketch: RelaxSketch, x: Any) -> Any:
    """Convolutions side by side that are joined, twice, and a sum beside them."""
    emit, ops = sketch.emit, relax.op
    x = emit(ops.nn.relu(sketch.conv(x, 16)))
    for _ in range(2):
        x = emit(ops.nn.relu(sketch.conv(x, 4, (1, 1))))
        both = [emit(ops.nn.relu(sketch.conv(x, 16, (k, k)))) for k in (1, 3)]
        x = emit(ops.concat(both, axis=1))
    return emit(ops.mean(emit(ops.add(x, sketch.conv(x, 32, (1, 1)))), [2, 3]))


@pytest.mark.parametrize("capacity", [1, 20_000, 1 << 20])
def test_parts_of_the_batch_are_never_copied(capacity: int) -> None:
    module = module_of([(4, 3, 8, 8)], fires)
    prepared = prepare(module)
    result = graphturbo_policy(prepared, lanes=LANES, capacity=capacity, axes=(0,))
    read = read_scheduled_module(apply_schedule(prepared, result.planned))
    memory = arrange(read.graph, read.functions)
    kinds = {unit.name: unit.kind for unit in result.prepared.units.operators}
    joins = [unit for unit in read.graph.operators if kinds[unit.name] == "concat"]
    assert len(joins) >= 2
    for unit in joins:
        assert set(unit.inputs) == memory.in_place[unit.outputs[0]]


def convolutions(sketch: RelaxSketch, x: Any) -> Any:
    for channels in (16, 16, 24):
        x = sketch.emit(relax.op.nn.relu(sketch.conv(x, channels)))
    return x


def test_images_of_a_batch_run_the_forms_that_are_named() -> None:
    module = module_of([(4, 16, 13, 12)], convolutions)
    prepared = prepare(module)
    planned = graphturbo_policy(prepared, lanes=LANES, capacity=1, axes=(0,)).planned
    assert planned.instances is not None
    planned = replace(planned, kernels={0: "winograd-4", 2: "winograd-2"})
    model = build(apply_schedule(prepared, planned), lanes=LANES)
    forms = [tuple(notes["forms"]) for notes in model.unit_notes.values()]
    factor = planned.instances.subgraphs[0].factor
    assert forms.count(("winogradinput", "winogradoutput")) == 2 * factor
    inputs = inputs_of(module)
    (output,) = outputs_of(model, inputs, executor="poisoning")
    np.testing.assert_allclose(output, *run(module, inputs), rtol=1e-4, atol=1e-4)


def test_rows_have_no_forms_of_a_name() -> None:
    module = module_of([(1, 16, 24, 12)], convolutions)
    prepared = prepare(module)
    planned = graphturbo_policy(prepared, lanes=LANES, capacity=12_000, axes=(2,)).planned
    with refused(ScheduleError, "no images of a batch"):
        replace(planned, kernels={0: "winograd-4"}).validate(prepared.units)


def test_every_lane_runs_its_instances_alone_and_in_order() -> None:
    result = unrolled(module_of([(8, 3, 8, 8)], pyramid(8)), 7000, lanes=2)
    assert result.instances.subgraphs[0].factor == 8
    stage = result.schedule.stages[0]
    assert stage.strategy is Strategy.CONCURRENT
    assert len(stage.groups) == 2
    assert result.planned.instances is not None
    lanes = [place.lane for place in result.planned.instances.order]
    assert lanes.count(0) == lanes.count(1) > 0
