"""Small ONNX graphs in Relax, scheduled; ``tests/relay/test_ir_pairs.py`` has them in Relay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tvm

from relay_passes import GraphTurboPartition
from relay_passes.relax.expressions import bindings_of
from relay_passes.relax.importer import import_onnx
from runtime_ext.ir_form import GROUP, STAGE, UNIT, attached_schedule
from tests.relax.ir_text import filecheck
from tests.shared_graphs import PARTITION_CAPACITY, PARTITIONED_MODEL, SHARED_GRAPHS, SPLIT_GRAPH


def scheduled(name: str) -> tvm.IRModule:
    return SHARED_GRAPHS[name].scheduled(import_onnx)[1]


@pytest.mark.parametrize("name", SHARED_GRAPHS)
def test_units_and_stages_are_those_of_the_model(name: str) -> None:
    """They are told by the model without TVM, so they are the same in both dialects."""
    shared = SHARED_GRAPHS[name]
    units, module = shared.scheduled(import_onnx)
    called = [b.value.op for b in bindings_of(module["main"]) if hasattr(b.value, "op")]
    marks: list[Any] = [module[function].attrs for function in called]
    calls = [(str(a[UNIT]), int(a[STAGE]), int(a[GROUP])) for a in marks]
    shared.require_units(units, attached_schedule(module), calls)


@pytest.mark.parametrize(("name", "place"), [("concurrent", (1, 0)), ("sequential", (0, 1))])
def test_branches(name: str, place: tuple[int, int], tmp_path: Path) -> None:
    """The same functions and calls; only where they stand in the schedule differs."""
    group, stage = place
    stages = stage + 2
    checks = f"""
    CHECK: I.module_attrs({{{{.*}}}}"ios.schedule": "by hand: 3 units in {stages} stages", "ios.
    CHECK: def unit_0_conv2d_relu(p0: f32(1, 3, 8, 8), p1: f32(4, 3, 3, 3)) -> f32(1, 4, 8, 8):
    CHECK-NEXT: {{{{.*}}}}"ios.stage": 0, "ios.unit": "Conv_0", "num_input": 1}})
    CHECK: R.nn.conv2d(p0, p1, strides=[1, 1], padding=[1, 1, 1, 1]
    CHECK-NEXT: R.nn.relu(
    CHECK: def unit_1_conv2d_relu(p0: f32(1, 3, 8, 8), p1: f32(6, 3, 1, 1)) -> f32(1, 6, 8, 8):
    CHECK-NEXT: R.func_attr({{"ios.group": {group}, "ios.stage": {stage},
    CHECK: R.nn.conv2d(p0, p1, strides=[1, 1], padding=[0, 0, 0, 0]
    CHECK-NEXT: R.nn.relu(
    CHECK: def unit_2_concat(p0: f32(1, 4, 8, 8), p1: f32(1, 6, 8, 8)) -> f32(1, 10, 8, 8):
    CHECK-NEXT: R.func_attr({{"ios.group": 0, "ios.stage": {stage + 1},
    CHECK: R.concat((p0, p1), axis=1)
    CHECK: def main(x: f32(1, 3, 8, 8)) -> f32(1, 10, 8, 8):
    CHECK: Conv_0: f32(1, 4, 8, 8) = cls.unit_0_conv2d_relu(x, const)
    CHECK-NEXT: Conv_1: f32(1, 6, 8, 8) = cls.unit_1_conv2d_relu(x, const)
    CHECK-NEXT: Concat_0: f32(1, 10, 8, 8) = cls.unit_2_concat(Conv_0, Conv_1)
    """
    filecheck(scheduled(name), checks, tmp_path)


def test_a_merged_convolution_and_its_split(tmp_path: Path) -> None:
    checks = """
    CHECK: def unit_0_merged_2_conv2d(p0: f32(1, 3, 8, 8), p1: f32(10, 3, 3, 3), p2: f32(
    CHECK-NEXT: {{.*}}"ios.stage": 0, "ios.unit": "Conv_0+Conv_1", "num_input": 1})
    CHECK: f32(1, 10, 8, 8) = R.nn.conv2d(p0, p1, strides=[1, 1], padding=[1, 1, 1, 1]
    CHECK-NEXT: R.add(
    CHECK-NEXT: R.nn.relu(
    CHECK-NEXT: R.Tuple(f32(1, 4, 8, 8), f32(1, 6, 8, 8)) = R.split(
    CHECK-SAME: indices_or_sections=[4], axis=1)
    CHECK-NOT: R.nn.conv2d
    CHECK: def unit_1_concat(p0: f32(1, 4, 8, 8), p1: f32(1, 6, 8, 8)) -> f32(1, 10, 8, 8):
    CHECK: R.concat((p0, p1), axis=1)
    CHECK: def main(
    CHECK: Conv_0_Conv_1: R.Tuple({{.*}}) = cls.unit_0_merged_2_conv2d(x, const, const)
    CHECK-NEXT: [[WIDE:lv[0-9]*]]: f32(1, 4, 8, 8) = Conv_0_Conv_1[0]
    CHECK-NEXT: [[NARROW:lv[0-9]+]]: f32(1, 6, 8, 8) = Conv_0_Conv_1[1]
    CHECK-NEXT: f32(1, 10, 8, 8) = cls.unit_1_concat([[WIDE]], [[NARROW]])
    """
    filecheck(scheduled("merged"), checks, tmp_path)


def test_outputs_keep_their_order(tmp_path: Path) -> None:
    """The schedule calls the pool, which is the first output, last."""
    checks = """
    CHECK: def main(x: f32(1, 4, 8, 8)) -> R.Tuple(
    CHECK: Conv_0: f32(1, 8, 8, 8) = cls.unit_0_conv2d_relu(x, const)
    CHECK-NEXT: Conv_1: f32(1, 2, 8, 8) = cls.unit_1_conv2d_sigmoid(Conv_0, const)
    CHECK-NEXT: MaxPool_0: f32(1, 8, 4, 4) = cls.unit_2_max_pool2d(Conv_0)
    CHECK-NEXT: = MaxPool_0, Conv_0, Conv_1
    """
    filecheck(scheduled("outputs"), checks, tmp_path)


def test_a_chain_with_a_residual(tmp_path: Path) -> None:
    checks = """
    CHECK: def unit_2_add_sigmoid(p0: f32(1, 4, 8, 8), p1: f32(1, 4, 8, 8)) -> f32(1, 4, 8, 8):
    CHECK: R.add(p0, p1)
    CHECK-NEXT: R.sigmoid(
    CHECK: def main(
    CHECK: Conv_0: f32(1, 4, 8, 8) = cls.unit_0_conv2d_relu(x, const)
    CHECK-NEXT: Conv_1: f32(1, 4, 8, 8) = cls.unit_1_conv2d_relu(Conv_0, const)
    CHECK-NEXT: Add_0: f32(1, 4, 8, 8) = cls.unit_2_add_sigmoid(Conv_1, x)
    """
    module = scheduled("residual")
    filecheck(module, checks, tmp_path)
    # One code, compiled once; two functions, because each says where it stands.
    first, second = (module[f"unit_{unit}_conv2d_relu"] for unit in range(2))
    moved = first.with_attrs({UNIT: str(second.attrs[UNIT]), STAGE: second.attrs[STAGE]})
    tvm.ir.assert_structural_equal(moved, second)


def test_the_order_of_least_memory(tmp_path: Path) -> None:
    """Functions keep their names and are given their new stages."""
    checks = """
    CHECK: def unit_0_{{.+}}(p0: f32(1, 3, 8, 8), p1: f32(16, 3, 3, 3))
    CHECK-NEXT: "ios.stage": 2,
    CHECK: def unit_1_{{.+}}(p0: f32(1, 3, 8, 8), p1: f32(64, 3, 3, 3))
    CHECK-NEXT: "ios.stage": 0,
    CHECK: def unit_2_{{.+}}(p0: f32(1, 64, 8, 8), p1: f32(1, 64, 3, 3))
    CHECK-NEXT: "ios.stage": 1,
    CHECK: def unit_3_concat_softmax(p0: f32(1, 16, 8, 8), p1: f32(1, 1, 8, 8))
    CHECK-NEXT: "ios.stage": 3,
    CHECK: R.concat(
    CHECK-NEXT: R.nn.softmax(
    CHECK: def main(
    CHECK: Conv_1: f32(1, 64, 8, 8) = cls.unit_1_{{.+}}(x, const)
    CHECK-NEXT: Conv_2: f32(1, 1, 8, 8) = cls.unit_2_{{.+}}(Conv_1, const)
    CHECK-NEXT: Conv_0: f32(1, 16, 8, 8) = cls.unit_0_{{.+}}(x, const)
    CHECK-NEXT: f32(1, 17, 8, 8) = cls.unit_3_concat_softmax(Conv_0, Conv_2)
    """
    filecheck(scheduled("memory"), checks, tmp_path)


def test_rows_of_an_image_on_two_lanes(tmp_path: Path) -> None:
    """Each part has the padding of its own border, and one row more than the next layer makes."""
    checks = """
    CHECK: def unit_0_{{.+}}(p0: f32(1, 3, 8, 8), p1: f32(4, 3, 3, 3)) -> f32(1, 4, 5, 8):
    CHECK-NEXT: R.func_attr({"ios.group": 0, "ios.stage": 0,
    CHECK: f32(1, 3, 6, 8) = R.strided_slice(p0, (2,), (2,), (8,)
    CHECK: R.nn.conv2d({{.*}}, p1, strides=[1, 1], padding=[0, 1, 1, 1]
    CHECK: def unit_1_{{.+}}(p0: f32(1, 4, 5, 8), p1: f32(6, 4, 3, 3)) -> f32(1, 6, 4, 8):
    CHECK: R.nn.conv2d(p0, p1, strides=[1, 1], padding=[0, 1, 1, 1]
    CHECK: def unit_2_{{.+}}(p0: f32(1, 3, 8, 8), p1: f32(4, 3, 3, 3)) -> f32(1, 4, 5, 8):
    CHECK-NEXT: R.func_attr({"ios.group": 1, "ios.stage": 0,
    CHECK: R.nn.conv2d({{.*}}, p1, strides=[1, 1], padding=[1, 1, 0, 1]
    CHECK: def unit_3_{{.+}}(p0: f32(1, 4, 5, 8), p1: f32(6, 4, 3, 3)) -> f32(1, 6, 4, 8):
    CHECK: R.nn.conv2d(p0, p1, strides=[1, 1], padding=[1, 1, 0, 1]
    CHECK: def unit_4_{{.+}}(p0: f32(1, 6, 4, 8), p1: f32(1, 6, 4, 8)) -> f32(1, 6, 8, 8):
    CHECK: R.concat((p0, p1), axis=2)
    CHECK: def main(
    CHECK: [[INNER:i[a-zA-Z0-9_]+]]: f32(1, 4, 5, 8) = cls.unit_0_{{.+}}(x, const)
    CHECK-NEXT: [[SECOND:i[a-zA-Z0-9_]+]]: f32(1, 6, 4, 8) = cls.unit_1_{{.+}}([[INNER]], const)
    CHECK-NEXT: [[OTHER:i[a-zA-Z0-9_]+]]: f32(1, 4, 5, 8) = cls.unit_2_{{.+}}(x, const)
    CHECK-NEXT: [[FIRST:i[a-zA-Z0-9_]+]]: f32(1, 6, 4, 8) = cls.unit_3_{{.+}}([[OTHER]], const)
    CHECK-NEXT: f32(1, 6, 8, 8) = cls.unit_4_{{.+}}([[FIRST]], [[SECOND]])
    """
    module = SPLIT_GRAPH.scheduled(import_onnx)[1]
    SPLIT_GRAPH.require_unrolled(attached_schedule(module))
    filecheck(module, checks, tmp_path)


def test_a_sub_graph_of_a_batch(tmp_path: Path) -> None:
    checks = """
    CHECK: "graphturbo.partition": {{.*}}factors{{.*}}[2]{{.*}}order{{.*}}[0, 1], [0, 0]
    CHECK: def subgraph_0(p0: f32(1, 3, 8, 8), p1: f32(4, 3, 3, 3), p2: f32(6, 4, 3, 3))
    CHECK: R.func_attr({"graphturbo.subgraph": 0, "num_input": 1})
    CHECK: R.nn.conv2d(p0, p1
    CHECK: R.nn.relu(
    CHECK: R.nn.conv2d({{.*}}, p2
    CHECK: R.nn.relu(
    CHECK: def main(x: f32(2, 3, 8, 8)) -> f32(2, 6, 8, 8):
    CHECK: [[B:lv[0-9]*]]: f32(1, 3, 8, 8) = R.strided_slice(x, (0,), (1,), (2,)
    CHECK-NEXT: [[SECOND:lv[0-9]*]]: f32(1, 6, 8, 8) = cls.subgraph_0([[B]], const, const)
    CHECK-NEXT: [[A:lv[0-9]*]]: f32(1, 3, 8, 8) = R.strided_slice(x, (0,), (0,), (1,)
    CHECK-NEXT: [[FIRST:lv[0-9]*]]: f32(1, 6, 8, 8) = cls.subgraph_0([[A]], const, const)
    CHECK-NEXT: R.concat(([[FIRST]], [[SECOND]]), axis=0)
    """
    partition = GraphTurboPartition("stcp920", capacity=PARTITION_CAPACITY)
    filecheck(partition(import_onnx(PARTITIONED_MODEL)), checks, tmp_path)
