"""The pass in Relay's build flows, and schedules that go from one dialect to the other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from tvm import relay
from tvm.relay import testing  # noqa: F401  (relay.testing is no attribute until it is imported)
from tvm.relay.build_module import bind_params_by_name

from relay_passes import IOSSchedule, SearchOptions, schedule_of
from relay_passes.checks import left_out_of
from relay_passes.pipeline import apply_schedule, for_target, prepare
from relay_passes.relay.expressions import operator_name
from relay_passes.relay.importer import import_onnx
from runtime_ext.build import build
from runtime_ext.relay.scheduled_main import read_scheduled_main
from tests.fast_run import one_in
from tests.forced_schedules import merge_first
from tests.onnx_sketch import Sketch, relative_error
from tests.refusals import refused
from tests.relay.relay_sketch import RelaySketch, inputs_of, module_of, run
from tests.shared_graphs import SHARED_GRAPHS
from tvm_ios.costs.costs import Offer
from tvm_ios.graph.units import form_units
from tvm_ios.models.load import load_onnx
from tvm_ios.models.source import ModelSource
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.policies.registry import tried_policies
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.schedule.schedule import Schedule, ScheduleError

#: What a described device has costs for.
DESCRIBED = tried_policies({Offer.STAGES, Offer.RTASKS})[0]


def small(s: RelaySketch, x: Any) -> Any:
    parts = [relay.nn.relu(s.norm(s.conv(x, 3, 4, (n, n)), 4)) for n in (1, 3)]
    return relay.concatenate([*parts, relay.nn.max_pool2d(x, (1, 1))], axis=1)


@pytest.fixture(scope="module")
def block() -> tvm.IRModule:
    return import_onnx(load_onnx("inception_block"))


def test_stands_beside_other_passes() -> None:
    module = module_of([(1, 3, 8, 8)], small)
    pipeline = tvm.transform.Sequential(
        [
            relay.transform.SimplifyInference(),
            IOSSchedule(cost="v100"),
            relay.transform.EliminateCommonSubexpr(),
            relay.transform.FuseOps(),
            relay.transform.InferType(),
        ]
    )
    made = pipeline(module)
    schedule = schedule_of(made)
    assert schedule is not None
    assert schedule.policy == "ios-both"
    assert relative_error(run(made, inputs_of(module)), run(module)) <= 1e-5


def test_the_phases_are_written_as_text(tmp_path: Path) -> None:
    module = module_of([(1, 3, 8, 8)], small)
    options = SearchOptions(dump_ir=tmp_path)
    scheduled = IOSSchedule("greedy", "v100", options=options)(module)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "01_imported.txt",
        "02_canonical.txt",
        "03_operators.json",
        "04_units.json",
        "05_schedule.json",
        "06_instances.txt",
        "07_scheduled.txt",
    ]
    assert "nn.batch_norm(" in (tmp_path / "01_imported.txt").read_text()
    assert "nn.batch_norm(" not in (tmp_path / "02_canonical.txt").read_text()
    text = scheduled.astext(show_meta_data=False)
    assert (tmp_path / "07_scheduled.txt").read_text() == text


def test_the_module_of_the_caller_is_not_changed() -> None:
    module = module_of([(1, 3, 8, 8)], small)
    before = module.astext()
    IOSSchedule(cost="v100")(module)
    assert module.astext() == before


def test_is_idempotent_and_survives_saving(block: tvm.IRModule) -> None:
    once = IOSSchedule(cost="v100")(block)
    assert IOSSchedule(cost="v100")(once).same_as(once)
    loaded = tvm.ir.load_json(tvm.ir.save_json(once))
    assert schedule_of(loaded) == schedule_of(once) is not None
    assert read_scheduled_main(loaded).places == read_scheduled_main(once).places
    tvm.ir.assert_structural_equal(loaded, once)


@pytest.mark.parametrize("policy", one_in(3, DESCRIBED))
def test_policies(policy: str, block: tvm.IRModule) -> None:
    schedule = schedule_of(IOSSchedule(policy, "v100")(block))
    assert schedule is not None
    assert schedule.policy == policy
    assert all(stage.placement is None for stage in schedule.stages)
    schedule.validate(prepare(block).units)


def test_a_schedule_of_another_dialect_applies(block: tvm.IRModule) -> None:
    """A schedule of the graph that both dialects have applies whatever it was found in."""
    units = form_units(graph_from_onnx(load_onnx("inception_block")))
    file = json.loads(json.dumps(sequential_schedule(units).to_json(units)))
    made = IOSSchedule(schedule=Schedule.from_json(file))(block)
    names = [name for name, *_ in read_scheduled_main(made).places]
    ours = prepare(block).units
    assert list(dict.fromkeys(names)) == [op.name for op in ours.operators]
    assert [op.kind for op in ours.operators] == [op.kind for op in units.operators]


def test_kernels_that_only_relax_has_are_left_out_of_what_is_attached() -> None:
    shared = SHARED_GRAPHS["merged"]
    prepared = prepare(import_onnx(shared.model))
    merged = shared.schedule(prepared.units)
    named = replace(merged, kernels={0: "coarse", 1: "coarse"})
    made = apply_schedule(prepared, named)
    assert schedule_of(made) == merged
    tvm.ir.assert_structural_equal(made, apply_schedule(prepared, merged))
    assert "names of 2 units and the places of tiles in 0 stages" in str(
        left_out_of(named, prepared.dialect)
    )
    assert left_out_of(merged, prepared.dialect) is None
    with refused(ScheduleError, "merged", "kernels"):
        apply_schedule(prepared, replace(named, kernels={0: "coarse"}))


def test_a_schedule_of_another_graph_is_refused_with_the_first_difference() -> None:
    def module(stride: int) -> tvm.IRModule:
        sketch = Sketch(1, 3, 8, 8)
        y = sketch.op("Relu", sketch.conv("x", 3, 4))
        return import_onnx(sketch.model(sketch.conv(y, 4, 4, strides=[stride, stride])))

    units = prepare(module(1)).units
    schedule = Schedule.from_json(sequential_schedule(units).to_json(units))
    with refused(ScheduleError, "unit 1", "[1, 4, 4, 4]"):
        IOSSchedule(schedule=schedule)(module(2))


_WORKLOADS: dict[str, dict[str, Any]] = {
    "squeezenet": {},
    "resnet": {"num_layers": 18},
    "densenet": {},
    "inception_v3": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*_WORKLOADS, "light_inception_v1", "light_squeezenet"])
def test_networks_with_merged_and_concurrent_stages(name: str) -> None:
    if name.startswith("light"):
        folder = Path(onnx.__file__).parent / "backend/test/data/light"
        module = import_onnx(load_onnx(ModelSource(str(folder / f"{name}.onnx"), random_weights=0)))
    else:
        module = _of_relay_testing(name)
    # A softmax would hide differences.
    body = module["main"].body
    if operator_name(body) == "nn.softmax":
        body = body.args[0]
    module = tvm.IRModule.from_expr(relay.Function(module["main"].params, body))
    module = relay.transform.InferType()(module)
    prepared = for_target(prepare(module), SearchOptions(lanes=2))
    # DenseNet is a chain: nothing of it can be merged or run side by side.
    chain = name == "densenet"
    units = prepared.units
    schedule = sequential_schedule(units) if chain else merge_first(prepared, every=2)
    made = apply_schedule(prepared, schedule)
    expected = run(module)
    assert relative_error(run(made), expected) <= 1e-4
    session = build(made, lanes=2).session()
    session.set_input(**inputs_of(module))
    session.run()
    assert relative_error([session.get_output(0)], expected) <= 1e-4


def _of_relay_testing(name: str) -> tvm.IRModule:
    module, params = getattr(relay.testing, name).get_workload(**_WORKLOADS[name])
    rng = np.random.default_rng(0)
    for key, value in params.items():
        if key.endswith(("var", "gamma")):
            array = rng.uniform(0.5, 1.5, value.shape)
        else:
            array = rng.standard_normal(value.shape) / np.sqrt(max(1, np.prod(value.shape[1:])))
        params[key] = tvm.nd.array(array.astype("float32"))
    return tvm.IRModule.from_expr(bind_params_by_name(module["main"], params))


@pytest.mark.slow
def test_merged_and_concurrent_stages_of_a_relay_module() -> None:
    def body(s: RelaySketch, x: Any) -> Any:
        return relay.concatenate([small(s, x), small(s, x)], axis=1)

    module = module_of([(1, 3, 8, 8)], body)
    prepared = prepare(module)
    made = apply_schedule(prepared, merge_first(prepared))
    assert relative_error(run(made), run(module)) <= 1e-5
