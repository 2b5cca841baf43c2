"""Small ONNX graphs in Relay, scheduled; ``tests/passes/test_ir_pairs.py`` has them in Relax."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tvm

from relay_passes import GraphTurboPartition
from relay_passes.instances.subgraph_functions import PARTITION, SUBGRAPH
from relay_passes.relay.importer import import_onnx
from runtime_ext.ir_form import attached_schedule
from runtime_ext.relay.scheduled_main import read_scheduled_main
from tests.relay.relay_text import filecheck
from tests.shared_graphs import PARTITION_CAPACITY, PARTITIONED_MODEL, SHARED_GRAPHS, SPLIT_GRAPH


def scheduled(name: str) -> tvm.IRModule:
    return SHARED_GRAPHS[name].scheduled(import_onnx)[1]


@pytest.mark.parametrize("name", SHARED_GRAPHS)
def test_units_and_stages_are_those_of_the_model(name: str) -> None:
    """They are told by the model without TVM, so they are the same in both dialects."""
    shared = SHARED_GRAPHS[name]
    units, module = shared.scheduled(import_onnx)
    # A unit of several kernels is several calls.
    calls = dict.fromkeys(read_scheduled_main(module).places)
    shared.require_units(units, attached_schedule(module), list(calls))


@pytest.mark.parametrize("name", ["concurrent", "sequential"])
def test_branches(name: str, tmp_path: Path) -> None:
    """The same text; only the module's attributes say what runs side by side."""
    checks = """
    CHECK: fn (%x: f32(1, 3, 8, 8)) -> f32(1, 10, 8, 8) {
    CHECK-NEXT: [[F:%[0-9]+]] = fn (%p0: f32(1, 3, 8, 8), %p1: f32(4, 3, 3, 3), Primitive=1)
    CHECK-NEXT: nn.conv2d({{.*}}, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3])
    CHECK-NEXT: nn.relu(
    CHECK: let [[WIDE:%Conv_0]]: f32(1, 4, 8, 8) = [[F]](%x, const)
    CHECK-NEXT: [[G:%[0-9]+]] = fn (%p01: f32(1, 3, 8, 8), %p11: f32(6, 3, 1, 1), Primitive=1)
    CHECK-NEXT: nn.conv2d({{.*}}, padding=[0, 0, 0, 0], channels=6, kernel_size=[1, 1])
    CHECK-NEXT: nn.relu(
    CHECK: let [[NARROW:%Conv_1]]: f32(1, 6, 8, 8) = [[G]](%x, const)
    CHECK-NEXT: [[H:%[0-9]+]] = fn ({{.*}}Primitive=1) -> f32(1, 10, 8, 8)
    CHECK: concatenate({{.*}}, axis=1)
    CHECK: let [[ALL:%Concat_0]]: f32(1, 10, 8, 8) = [[H]]([[WIDE]], [[NARROW]])
    CHECK-NEXT: [[ALL]]
    """
    filecheck(scheduled(name), checks, tmp_path)


def test_a_merged_convolution_and_its_split(tmp_path: Path) -> None:
    checks = """
    CHECK: [[F:%[0-9]+]] = fn (%p0: f32(1, 3, 8, 8), %p1: f32(10, 3, 3, 3), %p2: f32(10, 1, 1), Prim
    CHECK-NEXT: nn.conv2d({{.*}}, padding=[1, 1, 1, 1], channels=10, kernel_size=[3, 3])
    CHECK-NEXT: add(
    CHECK-NEXT: nn.relu(
    CHECK: let [[Y:%.*_0]]: f32(1, 10, 8, 8) = [[F]](%x, const, const)
    CHECK-NEXT: [[G:%[0-9]+]] = fn ({{.*}}Primitive=1) -> (f32(1, 4, 8, 8), f32(1, 6, 8, 8))
    CHECK-NEXT: split({{.*}}, indices_or_sections=[4], axis=1)
    CHECK: let [[BOTH:%.*_1]]: (f32(1, 4, 8, 8), f32(1, 6, 8, 8)) = [[G]]([[Y]])
    CHECK-NEXT: [[WIDE:%[0-9]+]] = [[BOTH]].0
    CHECK-NEXT: [[NARROW:%[0-9]+]] = [[BOTH]].1
    CHECK-NOT: nn.conv2d
    CHECK: let %Concat_0: f32(1, 10, 8, 8) = {{%[0-9]+}}([[WIDE]], [[NARROW]])
    """
    filecheck(scheduled("merged"), checks, tmp_path)


def test_outputs_keep_their_order(tmp_path: Path) -> None:
    """The schedule calls the pool, which is the first output, last."""
    checks = """
    CHECK: let [[INNER:%Conv_0]]: f32(1, 8, 8, 8) = {{%[0-9]+}}(%x, const)
    CHECK: let [[HEAD:%Conv_1]]: f32(1, 2, 8, 8) = {{%[0-9]+}}([[INNER]], const)
    CHECK: let [[POOL:%MaxPool_0]]: f32(1, 8, 4, 4) = {{%[0-9]+}}([[INNER]])
    CHECK-NEXT: ([[POOL]], [[INNER]], [[HEAD]])
    """
    filecheck(scheduled("outputs"), checks, tmp_path)


def test_a_chain_with_a_residual(tmp_path: Path) -> None:
    checks = """
    CHECK: let [[FIRST:%Conv_0]]: f32(1, 4, 8, 8) = {{%[0-9]+}}(%x, const)
    CHECK: let [[SECOND:%Conv_1]]: f32(1, 4, 8, 8) = {{%[0-9]+}}([[FIRST]], const)
    CHECK: fn ({{.*}}Primitive=1) -> f32(1, 4, 8, 8)
    CHECK-NEXT: add(
    CHECK-NEXT: sigmoid(
    CHECK: let %Add_0: f32(1, 4, 8, 8) = {{%[0-9]+}}([[SECOND]], %x)
    """
    module = scheduled("residual")
    filecheck(module, checks, tmp_path)
    # One code, compiled once: the functions do not say where they stand.
    first = module["main"].body
    tvm.ir.assert_structural_equal(first.value.op, first.body.value.op)


def test_the_order_of_least_memory(tmp_path: Path) -> None:
    """A softmax is a kernel of its own, in the unit of what it reads."""
    checks = """
    CHECK: let [[WIDE:%Conv_1]]: f32(1, 64, 8, 8) = {{%[0-9]+}}(%x, const)
    CHECK: let [[NARROW:%Conv_2]]: f32(1, 1, 8, 8) = {{%[0-9]+}}([[WIDE]], const)
    CHECK: let [[FIRST:%Conv_0]]: f32(1, 16, 8, 8) = {{%[0-9]+}}(%x, const)
    CHECK: let [[ALL:%Concat_0_0]]: f32(1, 17, 8, 8) = {{%[0-9]+}}([[FIRST]], [[NARROW]])
    CHECK: nn.softmax(
    CHECK: let %Concat_0_1: f32(1, 17, 8, 8) = {{%[0-9]+}}([[ALL]])
    """
    filecheck(scheduled("memory"), checks, tmp_path)


def test_rows_of_an_image_on_two_lanes(tmp_path: Path) -> None:
    """Each part has the padding of its own border, and one row more than the next layer makes."""
    checks = """
    CHECK: [[CUT:%[0-9]+]] = fn ({{.*}}Primitive=1) -> f32(1, 3, 6, 8)
    CHECK-NEXT: strided_slice({{.*}}begin=[2], end=[8], strides=[1], axes=[2])
    CHECK: let [[ROWS:%.*]]: f32(1, 3, 6, 8) = [[CUT]](%x)
    CHECK: nn.conv2d({{.*}}, padding=[0, 1, 1, 1], channels=4, kernel_size=[3, 3])
    CHECK-NEXT: nn.relu(
    CHECK: let [[INNER:%.*]]: f32(1, 4, 5, 8) = {{%[0-9]+}}([[ROWS]], const)
    CHECK: nn.conv2d({{.*}}, padding=[0, 1, 1, 1], channels=6, kernel_size=[3, 3])
    CHECK-NEXT: nn.relu(
    CHECK: let [[SECOND:%.*]]: f32(1, 6, 4, 8) = {{%[0-9]+}}([[INNER]], const)
    CHECK: strided_slice({{.*}}begin=[0], end=[6], strides=[1], axes=[2])
    CHECK: nn.conv2d({{.*}}, padding=[1, 1, 0, 1], channels=4, kernel_size=[3, 3])
    CHECK: nn.conv2d({{.*}}, padding=[1, 1, 0, 1], channels=6, kernel_size=[3, 3])
    CHECK: let [[FIRST:%.*]]: f32(1, 6, 4, 8) =
    CHECK: concatenate({{.*}}, axis=2)
    CHECK: f32(1, 6, 8, 8) = {{%[0-9]+}}([[FIRST]], [[SECOND]])
    """
    module = SPLIT_GRAPH.scheduled(import_onnx)[1]
    SPLIT_GRAPH.require_unrolled(attached_schedule(module))
    filecheck(module, checks, tmp_path)
    calls = dict.fromkeys(place[1:] for place in read_scheduled_main(module).places)
    assert list(calls) == [(0, 0), (0, 1), (1, 0)]


def test_a_sub_graph_of_a_batch(tmp_path: Path) -> None:
    checks = """
    CHECK: fn (%x: f32(2, 3, 8, 8)) -> f32(2, 6, 8, 8) {
    CHECK-NEXT: [[B:%[0-9]+]] = strided_slice(%x, begin=[1], end=[2], strides=[1], axes=[0])
    CHECK-NEXT: let [[SECOND:%.*]]: f32(1, 6, 8, 8) = @subgraph_0([[B]], const, const)
    CHECK-NEXT: [[A:%[0-9]+]] = strided_slice(%x, begin=[0], end=[1], strides=[1], axes=[0])
    CHECK-NEXT: let [[FIRST:%.*]]: f32(1, 6, 8, 8) = @subgraph_0([[A]], const, const)
    CHECK-NEXT: [[BOTH:%[0-9]+]] = ([[FIRST]], [[SECOND]])
    CHECK-NEXT: concatenate([[BOTH]])
    """
    partition = GraphTurboPartition("stcp920", capacity=PARTITION_CAPACITY)
    module = partition(import_onnx(PARTITIONED_MODEL))
    assert json.loads(str(module.attrs[PARTITION])) == {"factors": [2], "order": [[0, 1], [0, 0]]}
    filecheck(module, checks, tmp_path)
    function = module["subgraph_0"]
    assert int(function.attrs[SUBGRAPH]) == 0
    checks = """
    CHECK: fn (%p0: f32(1, 3, 8, 8), %p1: f32(4, 3, 3, 3), %p2: f32(6, 4, 3, 3)
    CHECK: nn.conv2d(%p0, %p1
    CHECK-NEXT: nn.relu(
    CHECK-NEXT: nn.conv2d({{.*}}, %p2
    CHECK-NEXT: nn.relu(
    """
    filecheck(module, checks, tmp_path, "subgraph_0")
