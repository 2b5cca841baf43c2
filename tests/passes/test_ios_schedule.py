"""The pass as users meet it: in a pipeline, with its options, and with what it refuses."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

import relay_passes
import runtime_ext
import tvm_ios
from relay_passes import IOSSchedule, schedule_of
from relay_passes.dialect import DialectError
from relay_passes.pipeline import prepare
from relay_passes.relax.importer import import_onnx
from tests.forced_schedules import merge_first
from tests.onnx_sketch import Sketch, relative_error
from tests.refusals import refused
from tests.relax.relax_sketch import (
    RelaxSketch,
    inputs_of,
    module_of,
    operators,
    require_same_outputs,
    run,
)
from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.costs.composed import CostError
from tvm_ios.costs.costs import Offer
from tvm_ios.devices.device import load_device
from tvm_ios.errors import SearchError, UserError
from tvm_ios.graph.elements import GraphError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.models.load import load_onnx
from tvm_ios.policies.registry import tried_policies
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.program.program import ProgramError
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import Stage, Strategy

op = relax.op

#: What a described device has costs for.
DESCRIBED = tried_policies({Offer.STAGES, Offer.RTASKS})[0]


def small(s: RelaxSketch, x: Any) -> Any:
    parts = [s.emit(op.nn.relu(s.norm(s.conv(x, 4, (n, n))))) for n in (1, 3)]
    return s.emit(op.concat([*parts, s.emit(op.nn.max_pool2d(x, (1, 1)))], axis=1))


@pytest.fixture(scope="module")
def block() -> tvm.IRModule:
    return import_onnx(load_onnx("inception_block"))


def test_stands_beside_other_passes() -> None:
    module = module_of([(1, 3, 8, 8)], small)
    pipeline = tvm.transform.Sequential(
        [
            relax.transform.Normalize(),
            IOSSchedule(cost="v100"),
            relax.transform.CanonicalizeBindings(),
            relax.transform.DeadCodeElimination(),
            relax.transform.EliminateCommonSubexpr(),
        ]
    )
    scheduled = pipeline(module)
    assert operators(scheduled) == []
    schedule = schedule_of(scheduled)
    assert schedule is not None
    assert schedule.policy == "ios-both"
    require_same_outputs(scheduled, module, 1e-4)


def test_the_module_of_the_caller_is_not_changed() -> None:
    module = module_of([(1, 3, 8, 8)], small)
    before = tvm.ir.save_json(module)
    IOSSchedule(cost="v100")(module)
    assert tvm.ir.save_json(module) == before


def test_is_idempotent(block: tvm.IRModule) -> None:
    once = IOSSchedule(cost="v100")(block)
    assert IOSSchedule(cost="v100")(once).same_as(once)
    given = schedule_of(once)
    assert IOSSchedule(schedule=given)(once).same_as(once)


def test_the_schedule_survives_saving_loading_and_printing(block: tvm.IRModule) -> None:
    scheduled = IOSSchedule(cost="v100")(block)
    loaded = tvm.ir.load_json(tvm.ir.save_json(scheduled))
    assert schedule_of(loaded) == schedule_of(scheduled)
    assert schedule_of(loaded) is not None
    for variable, function in scheduled.functions_items():
        if variable.name_hint != "main":
            same = loaded[variable.name_hint].attrs
            for key in ("ios.unit", "ios.stage", "ios.group"):
                assert str(same[key]) == str(function.attrs[key])
    assert scheduled.script() == loaded.script()


def test_an_unscheduled_module_has_no_schedule(block: tvm.IRModule) -> None:
    assert schedule_of(block) is None
    assert schedule_of(tvm.IRModule({})) is None


@pytest.mark.parametrize("policy", DESCRIBED)
def test_policies(policy: str, block: tvm.IRModule) -> None:
    schedule = schedule_of(IOSSchedule(policy, "v100")(block))
    assert schedule is not None
    assert schedule.policy == policy
    schedule.validate(prepare(block).units)
    strategies = {stage.strategy for stage in schedule.stages}
    widest = max(len(stage.groups) for stage in schedule.stages)
    # Of stages that are co-scheduled the units are one group.
    if policy != "ios-holistic":
        assert (widest == 1) == (policy in ("sequential", "rammer"))
    assert (Strategy.MERGE in strategies) <= (policy in ("ios-merge", "ios-both", "ios-holistic"))
    assert (Strategy.CO_SCHEDULE in strategies) == (policy in ("rammer", "ios-holistic"))


class _Contrary:
    """Merging costs nothing; running side by side for ever."""

    name = "contrary"

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        if stage.strategy is Strategy.MERGE:
            return 1e-9
        return 1.0 if len(stage.units) == 1 else 100.0


def test_a_cost_model_of_the_user_decides(block: tvm.IRModule) -> None:
    schedule = schedule_of(IOSSchedule(cost=_Contrary())(block))
    assert schedule is not None
    assert schedule.device == "contrary"
    assert max(len(s.groups) for s in schedule.stages if s.strategy is Strategy.MERGE) >= 4
    assert all(len(s.units) == 1 for s in schedule.stages if s.strategy is Strategy.CONCURRENT)


def test_a_unit_rule_of_the_user_is_used() -> None:
    module = module_of([(1, 3, 8, 8)], small)

    def alone(graph: OpGraph) -> list[list[int]]:
        return [[i] for i in range(len(graph))]

    scheduled = IOSSchedule("sequential", unit_rule=alone)(module)
    prepared = prepare(module)
    operators = len(prepared.outliner.extraction.graph)
    assert len(scheduled.functions) == operators + 1 > len(prepared.units) + 1
    require_same_outputs(scheduled, module)


def test_a_given_schedule_is_applied(block: tvm.IRModule) -> None:
    wanted = merge_first(prepare(block))
    assert schedule_of(IOSSchedule(schedule=wanted)(block)) == wanted


def test_a_saved_schedule_is_applied(block: tvm.IRModule, tmp_path: Path) -> None:
    prepared = prepare(block)
    wanted = merge_first(prepared)
    wanted.save(tmp_path / "schedule.json", prepared.units)
    loaded = Schedule.load(tmp_path / "schedule.json")
    assert schedule_of(IOSSchedule(schedule=loaded)(block)) == wanted


def test_weights_as_parameters_are_scheduled_but_not_merged() -> None:
    sketch = Sketch(1, 3, 8, 8)
    parts = [sketch.op("Relu", sketch.norm(sketch.conv("x", 3, 4, n), 4)) for n in (1, 3)]
    model = sketch.model(sketch.op("Concat", *parts, axis=1))
    module, _ = relax.frontend.detach_params(from_onnx(model, keep_params_in_input=True))
    assert len(module["main"].params) > 8
    scheduled = IOSSchedule(cost=_Contrary())(module)
    schedule = schedule_of(scheduled)
    assert schedule is not None
    assert {stage.strategy for stage in schedule.stages} == {Strategy.CONCURRENT}
    inputs = [abs(x) + 0.5 for x in inputs_of(module)]
    assert relative_error(run(scheduled, inputs), run(module, inputs)) <= 1e-5


@pytest.mark.parametrize("shapes", [[()], [(4,)], []], ids=["scalar", "vector", "no input"])
def test_inputs_without_a_batch(shapes: list[tuple[int, ...]]) -> None:
    def body(s: RelaxSketch, *inputs: Any) -> Any:
        return s.emit(op.exp(inputs[0] if inputs else s.normal(4)))

    assert schedule_of(IOSSchedule(cost="v100")(module_of(shapes, body))) is not None


def _main_of(value: Callable[[Any, Any], Any]) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    flag = relax.Var("flag", relax.TensorType((), "bool"))
    with builder.function("main", [x, flag]):
        builder.emit_func_output(builder.emit(value(x, flag)))
    return builder.finalize()


def _branch(x: Any, flag: Any) -> Any:
    return relax.If(flag, relax.SeqExpr([], op.exp(x)), relax.SeqExpr([], op.negative(x)))


def _dynamic() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tvm.tirx.Var("n", "int64"), 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(op.nn.relu(x))
        builder.emit_func_output(result)
    return builder.finalize()


def _tir_main() -> tvm.IRModule:
    def body(s: RelaxSketch, x: Any) -> Any:
        return s.builder.emit_te(tvm.topi.tile, x, [2])

    module = module_of([(4,)], body)
    (kernel,) = (f for v, f in module.functions_items() if v.name_hint != "main")
    return tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})


REFUSED = {
    "empty": (lambda: tvm.IRModule({}), "'main'"),
    "control_flow": (lambda: _main_of(_branch), "(If)"),
    "dynamic": (_dynamic, "'x'"),
    "tir": (_tir_main, "Relax function"),
    "training": (
        lambda: module_of([(1, 3, 8, 8)], lambda s, x: s.norm(s.conv(x, 4), training=True)),
        "training mode",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_a_module_in_one_sentence(case: str) -> None:
    make, named = REFUSED[case]
    with refused(DialectError, named):
        IOSSchedule(cost="v100")(make())


def test_works_after_a_refusal() -> None:
    with pytest.raises(DialectError):
        IOSSchedule(cost="v100")(_main_of(_branch))
    assert schedule_of(IOSSchedule(cost="v100")(module_of([(1, 3, 8, 8)], small))) is not None


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "schedule": (
        {"schedule": Schedule("00", (), "none")},
        ScheduleError,
        "00",
    ),
    "policy": ({"policy": "nothing"}, SearchError, "'nothing'"),
    "device": ({"cost": "abacus"}, ValueError, "'abacus'"),
    "rule": ({"unit_rule": lambda graph: [[0]]}, GraphError, "unit"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options_are_named(case: str, block: tvm.IRModule) -> None:
    """Also by way of TVM's pass manager, which replaces exceptions that it does not know."""
    options, error, named = WRONG[case]
    with refused(error, named) as caught:
        tvm.transform.Sequential([IOSSchedule(**{"cost": "v100", **options})])(block)
    assert isinstance(caught.value, UserError)


def _subclasses(kind: type[Any]) -> list[type[Any]]:
    return [kind, *(c for sub in kind.__subclasses__() for c in _subclasses(sub))]


def test_every_stated_error_comes_through_the_pass_manager() -> None:
    class NewError(UserError):
        """One that nobody could have registered before."""

    for package in (tvm_ios, relay_passes, runtime_ext):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            # What needs an extra that is not installed cannot raise anything either.
            with contextlib.suppress(ImportError):
                if "__main__" not in module.name:
                    importlib.import_module(module.name)
    small_module = module_of([(1, 3, 8, 8)], small)
    kinds = _subclasses(UserError)
    assert {NewError, CostError, ProgramError, ScheduleError} <= set(kinds)
    for kind in kinds:

        def rule(graph: Any, kind: type[Exception] = kind) -> Any:
            raise kind("one sentence")

        with pytest.raises(kind, match=r"^one sentence$") as caught:
            tvm.transform.Sequential([IOSSchedule(cost="v100", unit_rule=rule)])(small_module)
        assert type(caught.value) is kind


def test_a_schedule_of_another_graph_is_refused(block: tvm.IRModule) -> None:
    other = prepare(module_of([(1, 3, 8, 8)], small))
    with refused(ScheduleError, other.units.fingerprint):
        IOSSchedule(schedule=sequential_schedule(other.units))(block)


def test_analytic_costs_by_object_and_by_name_agree(block: tvm.IRModule) -> None:
    named = schedule_of(IOSSchedule(cost="cpu")(block))
    given = schedule_of(IOSSchedule(cost=AnalyticCost(load_device("cpu")))(block))
    assert named == given
