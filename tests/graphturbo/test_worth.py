"""The model of a CPU's caches: what it splits, and that it stays between its bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.graphturbo.onnx_networks import Runner, Sketch, networks
from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.grouping import SubGraph
from tvm_ios.graphturbo.instances import split_into_instances
from tvm_ios.graphturbo.layers import form_layers
from tvm_ios.graphturbo.split_info import Split, Splitter
from tvm_ios.graphturbo.worth import Choice, Worth, choose_subgraphs, lane_capacities

#: Two lanes. Half of a cache counts; a byte takes 1, 4 and 16 ns of both from their own caches,
#: the shared one and memory.
DEVICE = MemoryHierarchy(
    name="cpu",
    description="",
    clusters=1,
    cores=2,
    compute_units=1,
    local_buffer=8192,
    global_buffer=65_536,
    memory_bandwidth=1e9 / 16,
    global_bandwidth=1e9 / 4,
    local_bandwidth=1e9,
    peak_flops=1e12,
    vector_flops=1e12,
    kernel_overhead=0.0,
    weight_clusters=1,
    sources={},
)


def choose(graph: OpGraph, device: MemoryHierarchy) -> Choice:
    layers = form_layers(graph)
    capacities = lane_capacities(device)
    return choose_subgraphs([Splitter(layers, c, 2, axes=(0, 2)) for c in capacities], device)


def poolings(height: int, batch: int = 1) -> OpGraph:
    """Three poolings that keep the extents: 1 KB for 32 rows, all of them traffic."""
    sketch = Sketch((batch, 1, height, 8))
    name = "x"
    for _ in range(3):
        name = sketch.op("MaxPool", name, kernel_shape=[3, 3], pads=[1] * 4)
    return Runner(sketch.model(name)).graph


def test_rows_are_split_where_tensors_travel() -> None:
    assert lane_capacities(DEVICE) == [4096, 8192, 16_384]
    # 16 KB a tensor, so a layer lies in the shared cache, and a part of it in a lane's own.
    choice = choose(poolings(512), DEVICE)
    (only,) = choice.subgraphs
    assert only.split is not None
    assert only.factor % 2 == 0
    # Read once, written once to the shared cache, which counts twice, and both once in between.
    expected = (1 + 2) * 16_384 * 4e-9 + 2 * (1 + 2) * 16_384 * 1e-9
    assert expected <= choice.seconds <= 1.1 * expected
    arithmetic = sum(op.flops for op in poolings(512).operators) / DEVICE.peak_flops
    assert choice.layer_by_layer == pytest.approx(3 * (1 + 2) * 16_384 * 4e-9 + arithmetic)


def test_rows_of_several_images_are_as_good_as_images() -> None:
    layers = form_layers(poolings(192, batch=2))
    (result,) = layers.graph.outputs
    worth = Worth(layers, DEVICE)
    rows, images = (
        worth.apart(
            SubGraph((1 << len(layers)) - 1, Split(2, len(layers), axis, {result: axis}, 0))
        )
        for axis in (2, 0)
    )
    # But for the rows at the border, which both parts make.
    assert images < rows <= 1.05 * images


def test_only_traffic_is_gained() -> None:
    flat = replace(DEVICE, memory_bandwidth=1e9, global_bandwidth=1e9)
    choice = choose(poolings(512), flat)
    assert [s.split for s in choice.subgraphs] == [None] * len(choice.subgraphs)
    assert choice.seconds == choice.layer_by_layer
    fast, slow = (choose(poolings(512), replace(DEVICE, peak_flops=p)) for p in (1e12, 1e6))
    assert slow.layer_by_layer - slow.seconds <= fast.layer_by_layer - fast.seconds
    assert slow.layer_by_layer / slow.seconds <= 1.01


def test_of_about_equal_predictions_the_plainest_counts() -> None:
    fast = choose(poolings(512), DEVICE)
    gain = fast.layer_by_layer / fast.seconds
    assert fast.splits == 1
    # So much arithmetic that less than a twentieth is gained: then nothing is split.
    flops = sum(op.flops for op in poolings(512).operators)
    saved = fast.layer_by_layer - fast.seconds
    slow = choose(poolings(512), replace(DEVICE, peak_flops=flops / (40 * saved)))
    assert gain > 1.05
    assert slow.splits == 0
    assert slow.seconds == slow.layer_by_layer


def test_a_lane_without_work_beside_it_is_not_worth_it() -> None:
    # One instance fits a lane's cache: all lanes share it.
    (only,) = choose(poolings(64), DEVICE).subgraphs
    assert only.split is None


def skipping() -> Any:
    """Every other row is read; parts of single rows do not compute those between."""
    sketch = Sketch((1, 2, 16, 8))
    x = sketch.op("Conv", "x", sketch.weight(4, 2, 3, 3), pads=[1] * 4, kernel_shape=[3, 3])
    weight = sketch.weight(4, 4, 1, 1)
    return sketch.model(sketch.op("Conv", x, weight, strides=[2, 2], kernel_shape=[1, 1]))


@examples(25)
@example(model=skipping(), local=1024, peak=1e8)
@given(
    model=networks(), local=st.sampled_from((1024, 4096, 16_384)), peak=st.sampled_from((1e8, 1e12))
)
def test_bounds(model: Any, local: int, peak: float) -> None:
    graph = Runner(model).graph
    device = replace(DEVICE, local_buffer=local, peak_flops=peak)
    choice = choose(graph, device)
    layers = form_layers(graph)
    # Layer by layer would be more work where a stride skips the rows between parts.
    work = sum(i.work.flops for i in split_into_instances(layers, choice.subgraphs).instances)
    assert work / peak * (1 - 1e-9) <= choice.seconds <= choice.layer_by_layer
    done = 0
    for subgraph in choice.subgraphs:
        assert not done & subgraph.layers
        done |= subgraph.layers
    assert done == (1 << len(layers)) - 1
    faster = choose(graph, replace(device, memory_bandwidth=1e9))
    assert faster.layer_by_layer <= choice.layer_by_layer
