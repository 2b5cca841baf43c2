"""Relay modules that were scheduled and then changed, or that other passes made."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tvm
from tvm import relay

from relay_passes import GraphTurboPartition, IOSSchedule, MemorySchedule, schedule_of
from relay_passes.dialect import DialectError
from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relay.expressions import calls_of
from runtime_ext.build import build
from runtime_ext.ir_form import CALLS, SCHEDULE, SCHEDULE_DATA, ModuleError, attached_schedule
from runtime_ext.relay.scheduled_main import read_scheduled_main
from tests.fast_run import only
from tests.onnx_sketch import relative_error
from tests.refusals import refused
from tests.relay.relay_sketch import branches, inputs_of, module_of, run
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import Stage, Strategy

passes = relay.transform


@pytest.fixture(scope="module")
def module() -> tvm.IRModule:
    return module_of([(2, 3, 8, 8)], lambda s, x: relay.nn.relu(s.bias(s.conv(x, 3, 4), 4)))


def require_equal(changed: tvm.IRModule, module: tvm.IRModule) -> None:
    """What is built of a module computes what TVM makes of another."""
    session = build(changed, lanes=1).session()
    session.run(**inputs_of(module))
    assert relative_error([session.get_output(0)], run(module)) <= 1e-5


def test_a_partitioned_module_is_scheduled(module: tvm.IRModule) -> None:
    partitioned = GraphTurboPartition("stcp920", capacity=2000)(module)
    assert len(partitioned.functions) > 1
    scheduled = IOSSchedule("greedy")(partitioned)
    assert [v.name_hint for v in scheduled.functions] == ["main"]
    require_equal(scheduled, module)


def test_a_new_main_is_partitioned_again(module: tvm.IRModule) -> None:
    other = module_of([(2, 3, 8, 8)], lambda s, x: relay.exp(s.bias(s.conv(x, 3, 4), 4)))
    partition = GraphTurboPartition("stcp920", capacity=2000)
    stale = partition(module)
    assert partition(stale).same_as(stale)
    stale.update_func(stale.get_global_var("main"), other["main"])
    anew = partition(stale)
    assert partition(anew).same_as(anew)
    assert len(calls_of(anew)) > len(calls_of(other))
    require_equal(IOSSchedule("greedy")(anew), other)


@pytest.mark.parametrize("level", only([2], [0, 2]))
def test_fused_operators_are_taken_apart(level: int, module: tvm.IRModule) -> None:
    fused = passes.InferType()(passes.FuseOps(level)(module))
    alone, together = (prepare(each).units for each in (module, fused))
    assert alone.fingerprint == together.fingerprint
    require_equal(IOSSchedule("greedy")(fused), module)


def test_a_changed_main_is_scheduled_again() -> None:
    module = module_of([(1, 3, 8, 8)], lambda s, x: relay.exp(relay.nn.max_pool2d(x, (2, 2))))
    graph = passes.ToGraphNormalForm()(IOSSchedule("greedy")(module))
    with refused(ModuleError, "order", "IOSSchedule()"):
        build(graph, lanes=1)
    require_equal(IOSSchedule("greedy")(graph), module)
    # Whatever else is bound there, the calls are the same.
    bound = passes.InferType()(passes.ToANormalForm()(IOSSchedule("greedy")(module)))
    require_equal(bound, module)


def test_another_policy_schedules_anew_or_says_so() -> None:
    plain = module_of([(1, 3, 8, 8)], lambda s, x: relay.exp(relay.nn.max_pool2d(x, (2, 2))))
    anew = schedule_of(IOSSchedule("sequential")(IOSSchedule("greedy")(plain)))
    assert anew == schedule_of(IOSSchedule("sequential")(plain))
    module = module_of([(1, 3, 9, 9)], branches)
    prepared = prepare(module)
    stages = (
        Stage(Strategy.MERGE, ((0,), (1,), (2,), (3,))),
        Stage(Strategy.CONCURRENT, ((4,),)),
        Stage(Strategy.CONCURRENT, ((5,),)),
    )
    merged = apply_schedule(prepared, Schedule(prepared.units.fingerprint, stages, "by hand"))
    with refused(ScheduleError, "'by hand'", "before"):
        IOSSchedule("sequential")(merged)


def test_what_other_code_generators_compile_is_refused(module: tvm.IRModule) -> None:
    main = module["main"]
    inner = relay.Function(main.params, main.body).with_attr("Compiler", "other")
    x = relay.var("x", shape=(2, 3, 8, 8))
    called = tvm.IRModule.from_expr(relay.Function([x], relay.Call(inner, [x])))
    with refused(DialectError, "code generator"):
        IOSSchedule("greedy")(passes.InferType()(called))


@pytest.mark.slow
def test_modules_that_earlier_versions_saved(module: tvm.IRModule) -> None:
    """These had the places of calls, and the whole schedule, in attributes of the module."""
    scheduled = IOSSchedule("greedy")(module)
    places = read_scheduled_main(scheduled).places
    old = _without_marks(scheduled).without_attr(SCHEDULE_DATA)
    attributes = {SCHEDULE: json.dumps(attached_schedule(scheduled)), CALLS: json.dumps(places)}
    for name, text in attributes.items():
        old = old.with_attr(name, tvm.runtime.String(text))
    loaded = tvm.ir.load_json(tvm.ir.save_json(old))
    assert read_scheduled_main(loaded).places == places
    assert schedule_of(loaded) == schedule_of(scheduled)
    assert IOSSchedule("greedy")(loaded).same_as(loaded)
    require_equal(loaded, module)
    require_equal(MemorySchedule()(loaded), module)


def _without_marks(module: tvm.IRModule) -> tvm.IRModule:
    scheduled = read_scheduled_main(module)
    body: Any = scheduled.result
    for variable, call in reversed(scheduled.bindings):
        body = relay.Let(variable, relay.Call(call.op, call.args), body)
    main = module["main"]
    functions = {relay.GlobalVar("main"): relay.Function(main.params, body)}
    return passes.InferType()(tvm.IRModule(functions, None, module.attrs))
