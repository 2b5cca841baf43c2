from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.graphturbo.onnx_networks import Runner, Sketch, networks
from tests.refusals import refused
from tvm_ios import zoo
from tvm_ios.graph.elements import GraphError
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.graphturbo.cluster.workload import in_half_precision, with_batch
from tvm_ios.graphturbo.footprint import exits, part_of, whole_part
from tvm_ios.graphturbo.grouping import SubGraph, group
from tvm_ios.graphturbo.instances import split_into_instances
from tvm_ios.graphturbo.layers import Layers, form_layers
from tvm_ios.graphturbo.orders import order_instances
from tvm_ios.graphturbo.split_info import Splitter
from tvm_ios.onnx.graph import graph_from_onnx


@pytest.fixture(scope="module")
def resnet50() -> OpGraph:
    return with_batch(graph_from_onnx(zoo.build("resnet50")), 8)


def first_operators(layers: Layers, subgraphs: tuple[SubGraph, ...]) -> list[str]:
    names = layers.graph.operators
    return [names[layers.members[next(bits(s.layers))][0]].name for s in subgraphs]


def test_the_stages_of_resnet50_are_its_coarse_sub_graphs(resnet50: OpGraph) -> None:
    splitter = Splitter(form_layers(resnet50), 13 << 20)
    groups = group(splitter)
    assert [s.factor for s in groups] == [8, 4, 2, 1]
    starts = ["conv", "layer2.0/conv", "layer3.0/conv", "layer4.0/conv"]
    assert first_operators(splitter.layers, groups) == starts
    instances = split_into_instances(splitter.layers, groups)
    assert instances.redundant == (8 * 4 + 4 * 2 + 2) - 14
    best = order_instances(instances)[0]
    stages = [instances.instances[i].subgraph + 1 for i in best.order]
    # Figure 3b.
    assert best.name == "depth-first"
    assert stages == [1, 1, 2, 1, 1, 2, 3, 1, 1, 2, 1, 1, 2, 3, 4]
    assert best.proven


def test_the_published_example_is_half_precision_in_the_last_local_buffer(
    resnet50: OpGraph,
) -> None:
    subgraphs = group(Splitter(form_layers(in_half_precision(resnet50)), 8 << 20))
    assert [s.factor for s in subgraphs] == [8, 4, 2, 1]


def test_sums_continue_the_layer_that_is_made_last(resnet50: OpGraph) -> None:
    layers, kernels = form_layers(resnet50), form_layers(resnet50, with_sums=True)
    sums = [n for n, op in enumerate(resnet50.operators) if op.kind == "add"]
    assert len(layers) - len(kernels) == len(sums) == 16
    for op in sums:
        members = kernels.members[kernels.owner[op]]
        assert [resnet50.operators[m].kind for m in members].count("conv2d") == 1


def test_a_large_factor_is_not_passed_on_to_smaller_tensors(resnet50: OpGraph) -> None:
    small = group(Splitter(form_layers(resnet50), 10 << 20))
    assert [s.factor for s in small] == sorted((s.factor for s in small), reverse=True)
    (everything,) = group(Splitter(form_layers(resnet50), 1 << 30))
    assert everything.factor == 1


def test_up_sampling_keeps_the_factor_of_small_tensors() -> None:
    sketch = Sketch((8, 4, 4, 4))
    x = sketch.op("Relu", sketch.op("Conv", "x", sketch.weight(4, 4, 1, 1)))
    weight = sketch.weight(4, 2, 4, 4)
    x = sketch.op("ConvTranspose", x, weight, strides=[4, 4], kernel_shape=[4, 4])
    graph = Runner(sketch.model(sketch.op("Conv", x, sketch.weight(2, 2, 1, 1)))).graph
    # One image: 256 bytes before, 2048 after; so eight small images fit where one large one does.
    subgraphs = group(Splitter(form_layers(graph), 5000))
    assert [s.factor for s in subgraphs] == [1, 8]


@examples(50)
@given(model=networks(), capacity=st.sampled_from((300, 1000, 4000, 20_000)))
def test_sub_graphs_are_a_partition_that_nothing_circles_in(model: Any, capacity: int) -> None:
    layers = form_layers(Runner(model).graph)
    subgraphs = group(Splitter(layers, capacity, 4))
    done = 0
    for subgraph in subgraphs:
        assert subgraph.layers
        assert not subgraph.layers & done
        for layer in bits(subgraph.layers):
            assert not layers.predecessors[layer] & ~(done | subgraph.layers)
        done |= subgraph.layers
    assert done == (1 << len(layers)) - 1


@examples(40)
@given(model=networks(), capacity=st.sampled_from((300, 1000, 4000)), seed=st.integers(0, 99))
def test_equation_1_against_all_factors_of_all_axes(model: Any, capacity: int, seed: int) -> None:
    splitter = Splitter(form_layers(Runner(model).graph), capacity, 4, recomputation=0.3)
    layers = splitter.layers
    # A run of layers is a sub-graph as good as any.
    begin = seed % len(layers)
    subgraph = ((1 << len(layers)) - 1) >> begin << begin
    candidates = splitter.split_info(subgraph)
    best = splitter.best(subgraph)
    keys = [(s.operators, -s.factor, -s.axis) for s in candidates]
    assert (best is None) == (not candidates)
    if best is not None:
        assert (best.operators, -best.factor, -best.axis) == max(keys)
    everything = whole_part(layers, subgraph)
    outputs = exits(layers, subgraph)
    for split in candidates:
        for factor in range(1, split.factor):
            if any(layers.graph.tensors[t].shape[split.axes[t]] % factor for t in outputs):
                continue
            if factor in (3,):  # between the powers of two up to the cores
                continue
            # Never tried: by the whole footprint, which also counts rows that a stride skips.
            if everything.peak > capacity * factor:
                continue
            smaller = type(split)(factor, 0, split.axis, split.axes, 0)
            parts = [
                part_of(layers, subgraph, smaller.owned(layers.graph, p)) for p in range(factor)
            ]
            fits = max(part.peak for part in parts) <= capacity
            work = sum(part.flops for part in parts)
            assert not (fits and work <= 1.3 * everything.flops)


@examples(40)
@given(model=networks(), capacity=st.sampled_from((1, 300, 1000, 4000)))
def test_where_no_parts_fit_the_smallest_of_the_batch_spill(model: Any, capacity: int) -> None:
    layers = form_layers(Runner(model).graph)
    strict, spilling = (Splitter(layers, capacity, 4, axes=(0,), spills=s) for s in (False, True))
    batch = layers.graph.batch
    for layer in range(len(layers)):
        split = spilling.best(1 << layer)
        assert split is not None
        if (fitting := strict.best(1 << layer)) is not None:
            assert split == fitting
        else:
            assert split.peak > capacity
            assert split.factor == batch
    for subgraph in group(spilling):
        split = subgraph.split
        assert split is not None
        # What fits is not grown until it spills.
        fits = [strict.best(1 << layer) is not None for layer in bits(subgraph.layers)]
        assert spilling.fits(split) or not all(fits) or len(fits) == 1


def test_a_batch_is_refused_where_the_first_axis_is_none() -> None:
    graph = graph_from_onnx(zoo.build("lstm_small"))
    with refused(GraphError, "batch"):
        with_batch(graph, 4)
    sketch = Sketch((1, 4, 4))
    with refused(GraphError, "'Transpose_0'", "batch"):
        with_batch(Runner(sketch.model(sketch.op("Transpose", "x", perm=[1, 0, 2]))).graph, 4)
