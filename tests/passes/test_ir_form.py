"""What the scheduled module looks like: units, places, merged convolutions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relax

from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relax.importer import import_onnx
from tests.fast_run import only
from tests.forced_schedules import merge_first
from tests.onnx_sketch import relative_error
from tests.refusals import refused
from tests.relax.ir_text import filecheck
from tests.relax.relax_sketch import (
    RelaxSketch,
    branches,
    inputs_of,
    module_of,
    require_same_outputs,
    run,
    wide,
)
from tvm_ios.models.load import load_onnx
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import Stage, Strategy, sequential_stages

op = relax.op
MERGE, CONCURRENT = Strategy.MERGE, Strategy.CONCURRENT


def scheduled(module: tvm.IRModule, *stages: Stage) -> tvm.IRModule:
    prepared = prepare(module)
    return apply_schedule(prepared, Schedule(prepared.units.fingerprint, stages, "by hand"))


def test_units_are_private_functions_called_in_schedule_order(tmp_path: Path) -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        y = s.emit(op.nn.relu(s.bias(s.conv(x, 4))))
        return s.emit(op.add(s.emit(op.sigmoid(y)), s.emit(op.nn.max_pool2d(y, (1, 1)))))

    module = scheduled(
        module_of([(1, 3, 8, 8)], body),
        Stage(CONCURRENT, ((0,),)),
        Stage(CONCURRENT, ((2,), (1,))),
        Stage(CONCURRENT, ((3,),)),
    )
    checks = """
    CHECK: I.module_attrs({"ios.schedule": "by hand: 4 units in 3 stages", "ios.
    CHECK: @R.function(private=True)
    CHECK-NEXT: def unit_0_conv2d_bias_add_relu(p0: f32(1, 3, 8, 8), p1: f32(4, 3, 3, 3), p2:
    CHECK-NEXT: R.func_attr({"ios.group": 0, "ios.stage": 0, "ios.unit": "lv", "num_input": 1})
    CHECK: R.nn.conv2d(p0, p1,
    CHECK: R.add(
    CHECK: R.nn.relu(
    CHECK: @R.function(private=True)
    CHECK-NEXT: def unit_1_{{.+}}(p0: f32(1, 4, 8, 8))
    CHECK-NEXT: R.func_attr({"ios.group": 0, "ios.stage": 1, "ios.unit": "lv4", "num_input": 1})
    CHECK: R.nn.max_pool2d(
    CHECK: @R.function(private=True)
    CHECK-NEXT: def unit_2_{{.+}}(p0: f32(1, 4, 8, 8))
    CHECK-NEXT: R.func_attr({"ios.group": 1, "ios.stage": 1, "ios.unit": "lv3", "num_input": 1})
    CHECK: R.sigmoid(
    CHECK: @R.function(private=True)
    CHECK-NEXT: def unit_3_{{.+}}(p0: f32(1, 4, 8, 8), p1: f32(1, 4, 8, 8))
    CHECK-NEXT: R.func_attr({"ios.group": 0, "ios.stage": 2, "ios.unit": "lv5", "num_input": 2})
    CHECK: R.add(
    CHECK: @R.function{{$}}
    CHECK-NEXT: def main(x0: f32(1, 3, 8, 8)) -> f32(1, 4, 8, 8):
    CHECK: with R.dataflow():
    CHECK-NEXT: [[STEM:lv[0-9]*]]: f32(1, 4, 8, 8) = cls.unit_0_{{.+}}(x0, const, const)
    CHECK-NEXT: [[POOL:lv[0-9]*]]: f32(1, 4, 8, 8) = cls.unit_1_{{.+}}([[STEM]])
    CHECK-NEXT: [[SIGMOID:lv[0-9]*]]: f32(1, 4, 8, 8) = cls.unit_2_{{.+}}([[STEM]])
    CHECK-NEXT: [[SUM:lv[0-9]*]]: f32(1, 4, 8, 8) = cls.unit_3_{{.+}}([[SIGMOID]], [[POOL]])
    CHECK-NEXT: gv: f32(1, 4, 8, 8) = [[SUM]]
    CHECK-NEXT: R.output(gv)
    """
    filecheck(module, checks, tmp_path)


def test_a_merged_convolution_and_its_split_stand_in_the_ir(tmp_path: Path) -> None:
    module = module_of([(1, 3, 9, 9)], branches)
    graph = prepare(module).units
    assert [u.kind.split("+")[0] for u in graph.operators] == ["conv2d"] * 4 + [
        "max_pool2d",
        "concat",
    ]
    stages = (
        Stage(MERGE, ((0,), (1,), (2,), (3,))),
        Stage(CONCURRENT, ((4,),)),
        Stage(CONCURRENT, ((5,),)),
    )
    checks = """
    CHECK: def unit_0_{{.+}}(p0: f32(1, 3, 9, 9), p1: f32(18, 3, 3, 3), p2: f32(
    CHECK-SAME: R.Tuple(f32(1, 4, 9, 9), f32(1, 5, 9, 9), f32(1, 6, 9, 9), f32(1, 3, 9, 9))
    CHECK-NEXT: R.func_attr({"ios.group": 0, "ios.stage": 0, "ios.unit": "{{.*\\+.*\\+.*\\+.*}}"
    CHECK: [[Y:lv]]: f32(1, 18, 9, 9) = R.nn.conv2d(p0, p1, strides=[1, 1], padding=[1, 1, 1, 1]
    CHECK-NEXT: [[B:lv[0-9]+]]: f32(1, 18, 9, 9) = R.add([[Y]], p2)
    CHECK-NEXT: [[PARTS:lv[0-9]+]]: {{.*}} = R.split([[B]], indices_or_sections=[4, 9, 15], axis=1)
    CHECK: R.nn.relu(
    CHECK: R.nn.relu(
    CHECK: R.sigmoid(
    CHECK: def main(
    CHECK: [[ALL:lv[0-9lv_]*]]: R.Tuple({{.*}}) = cls.unit_0_{{.+}}(x0, const, const)
    CHECK-NEXT: f32(1, 4, 9, 9) = [[ALL]][0]
    CHECK-NEXT: f32(1, 5, 9, 9) = [[ALL]][1]
    CHECK-NEXT: f32(1, 6, 9, 9) = [[ALL]][2]
    CHECK-NEXT: f32(1, 3, 9, 9) = [[ALL]][3]
    CHECK-NEXT: cls.unit_1_{{.+}}(x0)
    """
    filecheck(scheduled(module, *stages), checks, tmp_path)


def test_equal_activations_stay_before_the_split(tmp_path: Path) -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        return tuple(s.emit(op.nn.relu(s.bias(s.conv(x, n, (n, n))))) for n in (1, 3))

    module = scheduled(module_of([(1, 3, 8, 8)], body), Stage(MERGE, ((0,), (1,))))
    checks = """
    CHECK: def unit_0_{{.+}}(
    CHECK: R.nn.conv2d(
    CHECK-NEXT: R.add(
    CHECK-NEXT: R.nn.relu(
    CHECK-NEXT: R.split({{.*}}, indices_or_sections=[1], axis=1)
    CHECK-NOT: R.nn.relu
    CHECK: def main(
    """
    filecheck(module, checks, tmp_path)


@pytest.mark.parametrize(
    "case", only(["branches", "outputs"], ["zoo", "branches", "strided", "outputs"])
)
def test_tvm_alone_compiles_it_and_computes_the_same(case: str) -> None:
    def strided(s: RelaxSketch, x: Any) -> Any:
        y = s.conv(x, 4, (3, 3), strides=[2, 2])
        z = s.emit(op.tanh(s.conv(x, 5, (1, 1), strides=[2, 2])))
        pools = [s.emit(op.nn.avg_pool2d(v, (3, 3), padding=(1, 1))) for v in (y, z)]
        return s.emit(op.concat([y, *pools, z], axis=1))

    def outputs(s: RelaxSketch, x: Any) -> Any:
        parts = s.emit(op.split(x, [2], axis=1))
        low, high = (s.emit(relax.TupleGetItem(parts, i)) for i in range(2))
        y, z = s.conv(low, 4, (1, 3)), s.emit(op.nn.relu(s.bias(s.conv(low, 4, (3, 1)))))
        return y, s.emit(op.nn.relu(y)), s.emit(op.sigmoid(high)), z

    if case == "zoo":
        module = import_onnx(load_onnx("inception_block"))
    else:
        body = {"branches": wide, "strided": strided, "outputs": outputs}[case]
        module = module_of([(1, 3, 9, 9)], body)
    prepared = prepare(module)
    applied = apply_schedule(prepared, merge_first(prepared))
    require_same_outputs(applied, module, 1e-4)


def test_each_equal_unit_has_a_function_of_its_own() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        return s.emit(op.nn.relu(s.emit(op.nn.max_pool2d(x, (1, 1))))), s.emit(op.nn.relu(x))

    module = prepare(module_of([(1, 3, 8, 8)], body))
    graph = module.units
    stages = sequential_stages(graph)
    applied = apply_schedule(module, Schedule(graph.fingerprint, stages, "sequential"))
    places = [
        (int(f.attrs["ios.stage"]), str(f.attrs["ios.unit"]))
        for v, f in applied.functions_items()
        if v.name_hint != "main"
    ]
    assert sorted(places) == [(i, op.name) for i, op in enumerate(graph.operators)]


def test_functions_of_the_user_stay_and_keep_their_names() -> None:
    main = module_of([(1, 3, 8, 8)], lambda s, x: s.conv(x, 4))["main"]
    other = module_of([(4,)], lambda s, x: s.emit(op.nn.relu(x)))["main"]
    other = other.with_attr("global_symbol", "unit_0")
    applied = scheduled(tvm.IRModule({"main": main, "unit_0": other}), Stage(CONCURRENT, ((0,),)))
    assert str(applied["unit_0"].attrs["global_symbol"]) == "unit_0"
    assert len(applied.functions) == 3
    inputs = inputs_of(applied)
    assert relative_error(run(applied, inputs), run(tvm.IRModule({"main": main}), inputs)) == 0


def test_attributes_of_the_module_and_of_main_stay() -> None:
    module = module_of([(1, 3, 8, 8)], lambda s, x: s.conv(x, 4))
    module = module.with_attr("mine", "kept")
    module["main"] = module["main"].with_attr("num_input", 1)
    applied = scheduled(module, Stage(CONCURRENT, ((0,),)))
    assert applied.attrs["mine"] == "kept"
    assert applied["main"].attrs["num_input"] == 1


def test_what_cannot_be_merged_is_refused() -> None:
    module = module_of([(1, 4, 8, 8)], lambda s, x: (s.conv(x, 4), s.conv(x, 4, groups=2)))
    with refused(ScheduleError, "lv, lv1"):
        scheduled(module, Stage(MERGE, ((0,), (1,))))
