"""What the scheduled Relay module looks like, and that TVM builds it and computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relay

from relay_passes.pipeline import apply_schedule, prepare, schedule_of
from relay_passes.relay.importer import import_onnx
from runtime_ext.relay.scheduled_main import read_scheduled_main
from tests.forced_schedules import merge_first
from tests.onnx_sketch import relative_error
from tests.relay.relay_sketch import RelaySketch, branches, build, kernels, module_of, run
from tests.relay.relay_text import filecheck
from tvm_ios.models.load import load_onnx
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy, sequential_stages

MERGE, CONCURRENT = Strategy.MERGE, Strategy.CONCURRENT


def scheduled(module: tvm.IRModule, *stages: Stage) -> tvm.IRModule:
    prepared = prepare(module)
    return apply_schedule(prepared, Schedule(prepared.units.fingerprint, stages, "by hand"))


def test_units_are_function_literals_called_in_schedule_order(tmp_path: Path) -> None:
    def body(s: RelaySketch, x: Any) -> Any:
        y = relay.nn.relu(s.bias(s.conv(x, 3, 4), 4))
        return relay.add(relay.sigmoid(y), relay.nn.max_pool2d(y, (1, 1)))

    module = scheduled(
        module_of([(1, 3, 8, 8)], body),
        Stage(CONCURRENT, ((0,),)),
        Stage(CONCURRENT, ((2,), (1,))),
        Stage(CONCURRENT, ((3,),)),
    )
    checks = """
    CHECK: fn (%x0: f32(1, 3, 8, 8)) -> f32(1, 4, 8, 8) {
    CHECK: [[STEM:%[0-9]+]] = fn (%p0{{.*}}: f32(1, 3, 8, 8), %p1{{.*}}: f32(4, 3, 3, 3),
    CHECK-SAME: Primitive=1
    CHECK: nn.conv2d(
    CHECK: nn.bias_add(
    CHECK: nn.relu(
    CHECK: let %conv2d_0: f32(1, 4, 8, 8) = [[STEM]](%x0, const, const) {
    CHECK-SAME: "ios.unit"="conv2d_0"
    CHECK: [[POOL:%[0-9]+]] = fn (%p0{{.*}}: f32(1, 4, 8, 8), {{.*}}Primitive=1
    CHECK: nn.max_pool2d(
    CHECK: let %max_pool2d_4: f32(1, 4, 8, 8) = [[POOL]](%conv2d_0)
    CHECK: sigmoid(
    CHECK: let %sigmoid_3: f32(1, 4, 8, 8) = {{%[0-9]+}}(%conv2d_0)
    CHECK: add(
    CHECK: let %add_5: f32(1, 4, 8, 8) = {{%[0-9]+}}(%sigmoid_3, %max_pool2d_4)
    CHECK-NEXT: %add_5
    """
    filecheck(module, checks, tmp_path)
    calls = list(map(list, read_scheduled_main(module).places))
    assert calls == [
        ["conv2d_0", 0, 0],
        ["max_pool2d_4", 1, 0],
        ["sigmoid_3", 1, 1],
        ["add_5", 2, 0],
    ]


def test_a_merged_convolution_and_its_split_stand_in_the_ir(tmp_path: Path) -> None:
    module = scheduled(
        module_of([(1, 3, 9, 9)], branches),
        Stage(MERGE, ((0,), (1,), (2,), (3,))),
        Stage(CONCURRENT, ((4,),)),
        Stage(CONCURRENT, ((5,),)),
    )
    checks = """
    CHECK: fn (%p0{{.*}}: f32(1, 3, 9, 9), %p1{{.*}}: f32(18, 3, 3, 3), %p2{{.*}}: f32(18, 1, 1),
    CHECK: nn.conv2d({{.*}}, padding=[1, 1, 1, 1], channels=18, kernel_size=[3, 3])
    CHECK: add(
    CHECK: let [[Y:%.*_0]]: f32(1, 18, 9, 9) = {{%[0-9]+}}(%x0, const, const)
    CHECK: split({{.*}}, indices_or_sections=[4, 9, 15], axis=1)
    CHECK: let [[PARTS:%.*_1]]: {{.*}} = {{%[0-9]+}}([[Y]])
    CHECK: nn.relu(
    CHECK: nn.relu(
    CHECK: sigmoid(
    CHECK: nn.max_pool2d(
    CHECK: let %concat
    """
    filecheck(module, checks, tmp_path)


def test_equal_activations_stay_with_the_convolution(tmp_path: Path) -> None:
    def body(s: RelaySketch, x: Any) -> Any:
        return tuple(relay.nn.relu(s.bias(s.conv(x, 3, n, (n, n)), n)) for n in (1, 3))

    module = scheduled(module_of([(1, 3, 8, 8)], body), Stage(MERGE, ((0,), (1,))))
    checks = """
    CHECK: nn.conv2d(
    CHECK: add(
    CHECK: nn.relu(
    CHECK: let
    CHECK: split({{.*}}, axis=1)
    CHECK-NOT: nn.relu
    CHECK: let
    """
    filecheck(module, checks, tmp_path)


def _strided(s: RelaySketch, x: Any) -> Any:
    y = s.conv(x, 3, 4, strides=(2, 2))
    z = relay.tanh(s.conv(x, 3, 5, (1, 1), strides=(2, 2)))
    pools = [relay.nn.avg_pool2d(v, (3, 3), padding=(1, 1)) for v in (y, z)]
    return relay.concatenate([y, *pools, z], axis=1)


def _outputs(s: RelaySketch, x: Any) -> Any:
    low, high = relay.split(x, [2], axis=1)
    y, z = s.conv(low, 2, 4, (1, 3)), relay.nn.relu(s.bias(s.conv(low, 2, 4, (3, 1)), 4))
    return y, relay.nn.relu(y), relay.sigmoid(high), z


def _wide(s: RelaySketch, x: Any) -> Any:
    """Twice the branches, side by side, so that something is left to run beside something."""
    deep = branches(s, branches(s, x), 21)
    return relay.concatenate([deep, branches(s, s.conv(x, 3, 4), 4)], axis=1)


@pytest.mark.parametrize("body", [_strided, _outputs, pytest.param(_wide, marks=pytest.mark.slow)])
def test_tvm_alone_builds_it_and_computes_the_same(body: Any) -> None:
    module = module_of([(1, 3, 9, 9)], body)
    prepared = prepare(module)
    made = apply_schedule(prepared, merge_first(prepared))
    assert relative_error(run(made), run(module)) <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["inception_block", "nasnet_cell", "lstm_small", "transformer_small"]
)
def test_networks(name: str) -> None:
    module = import_onnx(load_onnx(name))
    prepared = prepare(module)
    merges = name == "inception_block"
    schedule = merge_first(prepared) if merges else greedy_schedule(prepared.units)
    assert relative_error(run(apply_schedule(prepared, schedule)), run(module)) <= 1e-4


def test_a_separable_convolution_is_a_unit_of_two_kernels() -> None:
    def body(s: RelaySketch, x: Any) -> Any:
        return s.conv(s.conv(relay.nn.relu(x), 8, 8, groups=8), 8, 4, (1, 1))

    module = module_of([(1, 8, 6, 6)], body)
    graph = prepare(module).units
    assert [u.kind for u in graph.operators] == ["relu+conv2d+conv2d"]
    made = scheduled(module, *sequential_stages(graph))
    assert len(read_scheduled_main(made).places) == 3
    assert relative_error(run(made), run(module)) <= 1e-5


def test_equal_units_share_kernels_and_nothing_fuses_across() -> None:
    def body(s: RelaySketch, x: Any) -> Any:
        for _ in range(3):
            x = relay.nn.relu(s.bias(s.conv(x, 4, 4), 4))
        return relay.exp(x)

    module = module_of([(1, 4, 6, 6)], body)
    graph = prepare(module).units
    assert [u.kind for u in graph.operators] == ["conv2d+bias_add+relu"] * 3 + ["exp"]
    called = kernels(build(scheduled(module, *sequential_stages(graph))))
    assert len(called) == 4
    assert len(set(called)) == 2


def test_the_schedule_survives_relay_build() -> None:
    module = module_of([(1, 3, 9, 9)], branches)
    prepared = prepare(module)
    made = scheduled(module, *sequential_stages(prepared.units))
    library = build(made)
    schedule = schedule_of(library.ir_mod)
    assert schedule is not None
    assert schedule.fingerprint == prepared.units.fingerprint
