"""Modules that were scheduled and then changed, and modules that are odd to begin with."""

from __future__ import annotations

import gc
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.dpl import is_op, wildcard
from tvm.relax.global_info import VDevice

from relay_passes import GraphTurboPartition, IOSSchedule, MemorySchedule, schedule_of
from relay_passes.dialect import DialectError
from relay_passes.instances.subgraph_functions import is_partitioned
from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relax.expressions import calls_of
from runtime_ext.build import build
from runtime_ext.ir_form import SCHEDULE, SCHEDULE_DATA, ModuleError, attached_schedule
from tests.forced_schedules import merge_first
from tests.onnx_sketch import relative_error
from tests.refusals import refused
from tests.relax.relax_sketch import (
    RelaxSketch,
    branches,
    inputs_of,
    module_of,
    outputs_of,
    require_same_outputs,
    run,
    wide,
)
from tvm_ios.schedule.schedule import ScheduleError

op, passes = relax.op, relax.transform


@pytest.fixture(scope="module")
def module() -> tvm.IRModule:
    return module_of([(1, 6, 8, 8)], wide)


def require_equal(changed: tvm.IRModule, module: tvm.IRModule) -> None:
    """What is built of a module computes what TVM makes of another."""
    inputs = inputs_of(module)
    outputs = outputs_of(build(changed, lanes=1), inputs)
    assert relative_error(outputs, run(module, inputs)) <= 1e-5


def test_what_a_pass_put_back_into_main_is_scheduled_again(module: tvm.IRModule) -> None:
    inlined = passes.InlinePrivateFunctions()(IOSSchedule("greedy")(module))
    with refused(ModuleError, "main", "IOSSchedule()"):
        build(inlined, lanes=1)
    again = IOSSchedule("greedy")(inlined)
    assert again["main"] != inlined["main"]
    require_equal(again, module)


def test_a_new_main_is_scheduled_again(module: tvm.IRModule) -> None:
    other = module_of([(1, 6, 8, 8)], lambda s, x: s.emit(op.exp(s.emit(op.nn.relu(x)))))
    stale = IOSSchedule("greedy")(module)
    stale.update_func(stale.get_global_var("main"), other["main"])
    with refused(ModuleError, "relax.nn.relu", "IOSSchedule()"):
        build(stale, lanes=1)
    for ours in (IOSSchedule("greedy"), MemorySchedule()):
        fresh = ours(stale)
        require_equal(fresh if schedule_of(fresh) else IOSSchedule("greedy")(fresh), other)


def test_another_policy_schedules_anew(module: tvm.IRModule) -> None:
    greedy = IOSSchedule("greedy")(module)
    anew = schedule_of(IOSSchedule("sequential")(greedy))
    assert anew == schedule_of(IOSSchedule("sequential")(module))
    by_device = IOSSchedule("ios-parallel", "v100")(module)
    assert schedule_of(IOSSchedule("ios-parallel", "a100")(by_device)).device == "a100"  # type: ignore[union-attr]


def test_another_policy_is_refused_where_operators_were_merged() -> None:
    module = module_of([(1, 6, 8, 8)], wide)
    prepared = prepare(module)
    merged = apply_schedule(prepared, merge_first(prepared))
    with refused(ScheduleError, "'by hand'", "before"):
        IOSSchedule("sequential")(merged)
    assert IOSSchedule(schedule=merge_first(prepared))(merged).same_as(merged)


def test_a_partitioned_module_is_scheduled_and_partitioned_again() -> None:
    module = module_of([(2, 3, 8, 8)], lambda s, x: s.emit(op.nn.relu(s.conv(x, 4))))
    partition = GraphTurboPartition("stcp920", capacity=2000)
    partitioned = partition(module)
    assert partition(partitioned).same_as(partitioned)
    scheduled = IOSSchedule("greedy")(partitioned)
    require_equal(scheduled, module)
    assert not partition(scheduled).same_as(scheduled)


def test_a_new_main_is_partitioned_again() -> None:
    module = module_of([(2, 3, 8, 8)], lambda s, x: s.emit(op.nn.relu(s.conv(x, 4))))
    other = module_of([(2, 3, 8, 8)], lambda s, x: s.emit(op.exp(s.conv(x, 4))))
    partition = GraphTurboPartition("stcp920", capacity=2000)
    stale = partition(module)
    stale.update_func(stale.get_global_var("main"), other["main"])
    anew = partition(stale)
    assert partition(anew).same_as(anew)
    # The functions of the sub-graphs that were are gone.
    names = [sorted(v.name_hint for v in each.functions) for each in (anew, partition(other))]
    assert names[0] == names[1]
    assert len(calls_of(anew)) > len(calls_of(other))
    require_same_outputs(anew, other)


def test_what_is_added_to_calls_of_subgraphs_is_partitioned_too() -> None:
    module = module_of([(2, 3, 8, 8)], lambda s, x: s.emit(op.nn.relu(s.conv(x, 4))))
    partitioned = GraphTurboPartition("stcp920", capacity=2000)(module)
    assert is_partitioned(partitioned)

    @relax.expr_functor.mutator
    class Doubles(relax.PyExprMutator):
        """Doubles what is joined."""

        def visit_call_(self, call: Any) -> Any:
            joins = getattr(call.op, "name", "") == "relax.concat"
            return op.add(call, call) if joins else call

    doubled = tvm.IRModule(dict(partitioned.functions_items()), attrs=partitioned.attrs)
    main = doubled.get_global_var("main")
    doubled.update_func(main, Doubles().visit_expr(doubled[main]))
    assert not is_partitioned(passes.Normalize()(doubled))


def test_parameters_bound_afterwards_become_weights() -> None:
    def body(s: RelaxSketch, x: Any, kernel: Any) -> Any:
        y = s.emit(op.nn.conv2d(x, kernel, padding=1))
        return s.emit(op.nn.relu(s.emit(op.add(y, s.normal(1, 4, 1, 1)))))

    module = module_of([(1, 3, 8, 8), (4, 3, 3, 3)], body)
    bind = passes.BindParams("main", {"x1": inputs_of(module)[1]})
    bound = bind(IOSSchedule("greedy")(module))
    model = build(bound, lanes=1)
    assert [port.name for port in model.inputs] == ["x0"]
    inputs = inputs_of(module)
    assert relative_error(outputs_of(model, inputs[:1]), run(module, inputs)) <= 1e-5


def _products(s: RelaxSketch, x: Any, y: Any) -> Any:
    return s.emit(op.multiply(s.emit(op.nn.max_pool2d(x, (1, 1))), y)), s.emit(op.add(x, y))


def test_a_unit_may_be_given_one_tensor_twice() -> None:
    """As after ``EliminateCommonSubexpr``."""
    module = module_of([(1, 3, 8, 8)] * 2, _products)
    scheduled = IOSSchedule("sequential")(module)
    main = scheduled["main"]
    x, y = main.params
    body = tvm_ffi.structural_map(main.body, (tvm.ir.Var, lambda v: x if v.same_as(y) else v))
    function = relax.Function([x], body, main.ret_ty, main.is_pure, main.attrs)
    scheduled.update_func(scheduled.get_global_var("main"), function)
    (image, _) = inputs_of(module)
    outputs = outputs_of(build(scheduled, lanes=1), [image])
    assert relative_error(outputs, run(module, [image, image])) <= 1e-5


@pytest.mark.parametrize("codegen", [False, True])
def test_units_that_were_partitioned_afterwards(codegen: bool) -> None:
    module = module_of([(1, 3, 8, 8)], branches)
    convolution = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    fuse = passes.FuseOpsByPattern([("ours.conv2d", convolution)], annotate_codegen=codegen)
    fused = fuse(IOSSchedule("greedy")(module))
    if not codegen:
        require_equal(fused, module)
        return
    with refused(ModuleError, "annotate_codegen"):
        build(fused, lanes=1)


def test_a_cast_to_what_is_known_is_nothing() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        same = s.builder.match_cast(x, relax.TensorType((1, 3, 8, 8), "float32"))
        return s.emit(op.nn.relu(same))

    module = module_of([(1, 3, 8, 8)], body)
    require_equal(IOSSchedule("greedy")(module), module)


def test_lowered_modules_are_refused_as_such() -> None:
    module = module_of([(1, 3, 8, 8)], lambda s, x: s.emit(op.exp(x)))
    with tvm.target.Target("llvm"):
        lowered = relax.get_pipeline("default_build")(module)
    for late in (lowered, passes.KillAfterLastUse()(module_of([(1, 3, 8, 8)], branches))):
        with refused(DialectError, "virtual machine", "before"):
            IOSSchedule("greedy")(late)


def test_devices_of_a_module_stay(module: tvm.IRModule) -> None:
    device = VDevice("llvm")
    here = tvm.IRModule(dict(module.functions_items()), global_infos={"vdevice": [device]})
    small = module_of([(2, 3, 8, 8)], lambda s, x: s.emit(op.nn.relu(s.conv(x, 4))))
    parted = tvm.IRModule(dict(small.functions_items()), global_infos={"vdevice": [device]})
    scheduled = IOSSchedule("greedy")(here)
    for changed in (
        scheduled,
        MemorySchedule()(here),
        MemorySchedule()(scheduled),
        GraphTurboPartition("stcp920", capacity=2000)(parted),
    ):
        assert [str(info) for info in changed.global_infos["vdevice"]] == [str(device)]


def test_threads_schedule_side_by_side(module: tvm.IRModule) -> None:
    expected = schedule_of(IOSSchedule("greedy")(module))
    with ThreadPoolExecutor(4) as pool:
        scheduled = list(pool.map(lambda _: IOSSchedule("greedy")(module), range(8)))
    assert all(schedule_of(each) == expected for each in scheduled)


def test_a_refusal_is_all_that_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    training = module_of([(1, 3, 8, 8)], lambda s, x: s.norm(s.conv(x, 4), training=True))
    with pytest.raises(DialectError):
        IOSSchedule("greedy")(training)
    gc.collect()
    assert capfd.readouterr().err == ""


def test_modules_that_earlier_versions_saved(module: tvm.IRModule) -> None:
    """These had the whole schedule in the attribute that is a line about it now."""
    scheduled = IOSSchedule("greedy")(module)
    text = json.dumps(attached_schedule(scheduled))
    before = scheduled.without_attr(SCHEDULE_DATA).with_attr(SCHEDULE, text)
    loaded = tvm.ir.load_json(tvm.ir.save_json(before))
    assert schedule_of(loaded) == schedule_of(scheduled)
    assert IOSSchedule("greedy")(loaded).same_as(loaded)
    require_equal(MemorySchedule()(loaded), module)


def test_a_damaged_schedule_is_one_sentence(module: tvm.IRModule) -> None:
    scheduled = IOSSchedule("greedy")(module)
    damaged = scheduled.without_attr(SCHEDULE_DATA)
    with refused(ModuleError, "damaged", "IOSSchedule()"):
        build(damaged, lanes=1)


def test_units_have_the_names_of_the_users_variables() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 3, 8, 8), "float32"))
    weight = relax.const(np.ones((4, 3, 3, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            inner = builder.emit(op.nn.conv2d(x, weight, padding=1), "conv1")
            inner = builder.emit(op.nn.relu(inner), "activated")
            result = builder.emit_output(builder.emit(op.nn.max_pool2d(inner, (2, 2)), "pool1"))
        builder.emit_func_output(result)
    scheduled = IOSSchedule("greedy")(builder.finalize())
    names = {v.name_hint: f.attrs for v, f in scheduled.functions_items()}
    assert set(names) == {"unit_0_conv2d_relu", "unit_1_max_pool2d", "main"}
    assert str(names["unit_0_conv2d_relu"]["ios.unit"]) == "conv1"
    assert str(names["unit_1_max_pool2d"]["ios.unit"]) == "pool1"
    calls = [b.var.name for block in scheduled["main"].body.blocks for b in block.bindings]
    assert calls[:2] == ["conv1", "pool1"]
