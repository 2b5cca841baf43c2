from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.graphturbo.onnx_networks import Runner, networks, slices
from tvm_ios.graph.op_graph import bits
from tvm_ios.graphturbo.footprint import part_of
from tvm_ios.graphturbo.grouping import group
from tvm_ios.graphturbo.instances import Instances, split_into_instances
from tvm_ios.graphturbo.layers import form_layers
from tvm_ios.graphturbo.orders import breadth_first, depth_first, order_instances
from tvm_ios.graphturbo.split_info import Splitter


def instances_of(graph: Any, capacity: int, recomputation: float = 0.5) -> Instances:
    splitter = Splitter(form_layers(graph), capacity, 4, recomputation)
    return split_into_instances(splitter.layers, group(splitter))


@examples(60)
@given(model=networks(), capacity=st.sampled_from((300, 1000, 2000, 4000, 10_000)))
def test_instances_cover_every_element_once_and_read_only_what_they_say(
    model: Any, capacity: int
) -> None:
    runner = Runner(model)
    graph = runner.graph
    instances = instances_of(graph, capacity)
    counts = {t: np.zeros(graph.tensors[t].shape, int) for t in instances.makers}
    for instance in instances.instances:
        for tensor, box in instance.owned.items():
            counts[tensor][slices(box)] += 1
    assert all((count == 1).all() for count in counts.values())
    assert set(graph.outputs) <= set(counts)
    # Everything that an instance depends on, back to the input, decides what it makes.
    for number in range(len(instances)):
        check_cone(runner, instances, number)


def check_cone(runner: Runner, instances: Instances, number: int) -> None:
    graph, layers = runner.graph, instances.layers
    instance = instances.instances[number]
    everything = (1 << len(layers)) - 1
    for tensor, box in instance.owned.items():
        if tensor not in graph.outputs:
            continue
        cone, fringe = {number}, [number]
        while fringe:
            for source in bits(instances.predecessors[fringe.pop()]):
                if source not in cone:
                    cone.add(source)
                    fringe.append(source)
        read = [instances.instances[i].needs.get(graph.inputs[0]) for i in cone]
        x = np.full_like(runner.x, 7.0)
        for part in read:
            if part is not None:
                x[slices(part)] = runner.x[slices(part)]
        place = graph.outputs.index(tensor)
        values = runner.outputs(x)[place]
        np.testing.assert_array_equal(values[slices(box)], runner.reference[place][slices(box)])
        direct = part_of(layers, everything, {tensor: box}).boxes.get(graph.inputs[0])
        assert direct is None or any(part is not None for part in read)


@examples(40)
@given(model=networks(), capacity=st.sampled_from((1000, 2000, 4000)))
def test_parts_fit_the_local_buffer_and_repeat_little(model: Any, capacity: int) -> None:
    graph = Runner(model).graph
    instances = instances_of(graph, capacity, recomputation=0.2)
    for number, subgraph in enumerate(instances.subgraphs):
        if subgraph.split is None:
            continue
        parts = [i.work for i in instances.instances if i.subgraph == number]
        assert len(parts) == subgraph.split.factor
        assert max(part.peak for part in parts) <= capacity
        alone = sum(
            graph.operators[op].flops
            for layer in bits(subgraph.layers)
            for op in instances.layers.members[layer]
        )
        assert sum(part.flops for part in parts) <= 1.2 * alone + 1e-6


@examples(40)
@given(model=networks(), capacity=st.sampled_from((1000, 4000)))
def test_orders_are_orders_and_the_best_comes_first(model: Any, capacity: int) -> None:
    instances = instances_of(Runner(model).graph, capacity)
    orders = order_instances(instances)
    for order in orders:
        done = 0
        for instance in order.order:
            assert not instances.predecessors[instance] & ~done
            done |= 1 << instance
        assert done == (1 << len(instances)) - 1
    assert [o.peak for o in orders] == sorted(o.peak for o in orders)
    exact = next(o for o in orders if o.name == "exact")
    assert not exact.proven or exact.peak == orders[0].peak


def test_figure_7() -> None:
    # Eight, four, two and one instances; each reads two of the stage before.
    masks = [0] * 8 + [3 << 2 * i for i in range(4)] + [3 << 8, 3 << 10, 3 << 12]
    stage = "aaaaaaaabbbbccd"
    assert "".join(stage[i] for i in breadth_first(masks)) == stage
    assert "".join(stage[i] for i in depth_first(masks)) == "aabaabcaabaabcd"
