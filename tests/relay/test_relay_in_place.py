"""Concatenations of Relay programs that need not run."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from relay_passes import SearchOptions
from relay_passes.ios_schedule import IOSSchedule
from relay_passes.measured_module import MeasuredModule
from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relay.target_units import RelayUnits
from runtime_ext.build import build
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.execution.executable import load
from runtime_ext.relay import build as relay_build
from runtime_ext.relay.in_place import InPlace
from tests.brief import take_first_samples
from tests.forced_schedules import merge_first
from tests.onnx_sketch import relative_error
from tests.relay.relay_sketch import RelaySketch, inputs_of, module_of, run
from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.program.happens_before import check_races
from tvm_ios.program.program import Launch
from tvm_ios.schedule.stage import Stage, Strategy


def silent(s: RelaySketch, x: Any) -> Any:
    """Concatenations in concatenations, of what is merged, in blocks of channels and without."""
    y = s.conv(x, 16, 16)
    for _ in range(2):
        y = relay.concatenate([y, relay.nn.relu(s.conv(relay.tanh(y), y_channels(y), 16))], axis=1)
    left, right = relay.nn.relu(s.conv(y, 48, 32)), relay.nn.relu(s.conv(y, 48, 16, (1, 1)))
    inner = relay.concatenate([left, relay.nn.max_pool2d(right, (1, 1))], axis=1)
    z = relay.concatenate([relay.sigmoid(y), inner], axis=1)
    flat = [relay.nn.batch_flatten(v) for v in (relay.tanh(z), relay.sigmoid(z))]
    return relay.nn.dense(relay.concatenate(flat, axis=1), s.normal(5, 2 * 96 * 64))


def y_channels(expression: Any) -> int:
    """How many channels an expression has."""
    module = tvm.IRModule.from_expr(expression)
    return int(relay.transform.InferType()(module)["main"].body.checked_type.shape[1])


def copying(s: RelaySketch, x: Any) -> Any:
    """An input, an output, a tensor twice, a constant, what is not aligned, another axis."""
    y, z = relay.exp(x), relay.tanh(x)
    narrow = relay.strided_slice(relay.sigmoid(x), [0, 0, 0, 0], [1, 1, 8, 3])
    joined = [
        relay.concatenate([x, relay.negative(x)], axis=1),
        relay.concatenate([y, relay.abs(x)], axis=1),
        relay.concatenate([z, z], axis=1),
        relay.concatenate([relay.sigmoid(x), s.normal(1, 16, 8, 8)], axis=1),
        relay.concatenate([narrow, relay.negative(narrow)], axis=1),
        relay.concatenate([relay.exp(z), relay.abs(z)], axis=2),
    ]
    return (y, *(relay.nn.relu(join) for join in joined))


def merged(module: tvm.IRModule) -> tvm.IRModule:
    prepared = prepare(module)
    return apply_schedule(prepared, merge_first(prepared))


def joins(model: BuiltModel) -> list[bool]:
    """For each unit that concatenates whether it has launches."""
    items = [i for lane in model.program.lanes for i in lane if isinstance(i, Launch)]
    run = {model.program.units[item.unit] for item in items}
    return [unit in run for unit in model.program.units if unit.startswith("concat")]


def outputs(model: Any, module: tvm.IRModule, **options: Any) -> list[Any]:
    session = model.session(**options)
    session.run(**inputs_of(module))
    return [session.get_output(place) for place in range(len(session.outputs))]


@pytest.mark.parametrize(
    "schedule",
    [
        pytest.param(merged, marks=pytest.mark.slow, id="merged"),
        pytest.param(IOSSchedule("greedy"), id="blocked"),
    ],
)
def test_units_write_into_the_concatenation(
    schedule: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = module_of([(1, 16, 8, 8)], silent)
    made = schedule(module)
    model = build(made, lanes=2)
    check_races(model.program)
    assert joins(model) == [False] * 4
    found = outputs(model, module)
    assert relative_error(found, run(module)) <= 1e-5
    np.testing.assert_array_equal(outputs(model, module, executor="poisoning", seed=3), found)
    model.save(tmp_path / "out")
    np.testing.assert_array_equal(outputs(load(tmp_path / "out"), module), found)

    monkeypatch.setattr(relay_build, "lay_in_place", lambda read, _: InPlace(read.code, {}, {}))
    copied = build(made, lanes=2)
    assert joins(copied) == [True] * 4
    np.testing.assert_array_equal(outputs(copied, module), found)
    assert model.memory.plan.nbytes < copied.memory.plan.nbytes


def test_what_cannot_lie_there_is_copied() -> None:
    module = module_of([(1, 16, 8, 8)], copying)
    model = build(IOSSchedule("greedy")(module), lanes=2)
    assert joins(model) == [True] * 6
    assert relative_error(outputs(model, module), run(module)) <= 1e-5


def test_images_of_a_batch_are_copied() -> None:
    def body(s: RelaySketch, x: Any) -> Any:
        return relay.nn.relu(relay.concatenate([relay.exp(x), relay.tanh(x)], axis=1))

    module = module_of([(2, 16, 4, 4)], body)
    model = build(IOSSchedule("greedy")(module), lanes=2)
    assert joins(model) == [True]
    assert relative_error(outputs(model, module), run(module)) <= 1e-5


def test_what_is_in_place_costs_nothing_when_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_first_samples(monkeypatch.setattr)
    prepared = prepare(module_of([(1, 16, 8, 8)], silent))
    search = MeasuredModule(RelayUnits(prepared, SearchOptions(lanes=2, cache=tmp_path)))
    graph, timer = prepared.units, search.timer
    timer.compile_units()
    joined = [u for u, op in enumerate(graph.operators) if op.kind.startswith("concat")]
    assert [timer.forms((u,)).code.calls for u in joined] == [()] * 4
    seconds = [
        timer.stage_latency(graph, Stage(Strategy.CONCURRENT, ((unit,),)))
        for unit in range(len(graph))
    ]
    assert all((seconds[u] < 1e-8) == (u in joined) for u in range(len(graph)))
    # Merged units write into the concatenation as well.
    pair = next(p for p in combinations(range(len(graph)), 2) if mergeable(graph, p))
    assert any("__in_place_" in call.symbol for call in timer.forms(pair).code.calls)
    assert timer.stage_latency(graph, Stage(Strategy.MERGE, tuple((u,) for u in pair))) > 1e-8
