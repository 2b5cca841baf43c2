from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graphturbo.onnx_networks import Runner, Sketch, networks
from tvm_ios.graphturbo.box import volume
from tvm_ios.graphturbo.cluster.binding import Scope, infer_bindings, plain_binding
from tvm_ios.graphturbo.cluster.movements import Movement, insert_movements
from tvm_ios.graphturbo.cluster.spilling import Live, largest, longest_lived, place_tensors
from tvm_ios.graphturbo.cluster.tiling import anchor_of, tile_layer
from tvm_ios.graphturbo.footprint import whole_part
from tvm_ios.graphturbo.grouping import SubGraph, group
from tvm_ios.graphturbo.instances import Instances, split_into_instances
from tvm_ios.graphturbo.layers import form_layers
from tvm_ios.graphturbo.orders import order_instances
from tvm_ios.graphturbo.split_info import Splitter


def scheduled(model: Any, capacity: int) -> tuple[Instances, Splitter, tuple[int, ...]]:
    splitter = Splitter(form_layers(Runner(model).graph), capacity, 4)
    instances = split_into_instances(splitter.layers, group(splitter))
    return instances, splitter, order_instances(instances, exact=False)[0].order


def test_plain_bindings_take_cores_from_the_outermost_axis_on() -> None:
    assert plain_binding(((0, 8), (0, 64)), 8) == (8, 1)
    assert plain_binding(((0, 2), (0, 64), (0, 7)), 8) == (2, 4, 1)
    assert plain_binding(((0, 3), (0, 6)), 8) == (1, 2)
    assert plain_binding(((0, 8), (0, 64)), 8, frozenset({0})) == (1, 8)


@settings(max_examples=40, deadline=None)
@given(
    model=networks(),
    capacity=st.sampled_from((500, 2000, 8000)),
    banned=st.sampled_from((frozenset[int](), frozenset({0}), frozenset({0, 1}))),
)
def test_bindings_divide_what_they_bind(model: Any, capacity: int, banned: frozenset[int]) -> None:
    instances, splitter, order = scheduled(model, capacity)
    tensors = range(len(instances.layers.graph.tensors))
    found = infer_bindings(instances, order, splitter.dimensions, 8, dict.fromkeys(tensors, banned))
    for instance, bound in zip(instances.instances, found.bind, strict=True):
        box = next(iter(instance.owned.values()))
        assert all((e - b) % f == 0 for f, (b, e) in zip(bound, box, strict=True))
        assert all(bound[axis] == 1 for axis in banned if axis < len(bound))
        plain = plain_binding(box, 8, banned)
        assert math.prod(bound) >= math.prod(plain)
    moves = insert_movements(instances, found)
    for number, instance in enumerate(instances.instances):
        before = [move for move in moves if move.reader == number]
        for tensor in instance.needs:
            sources = instances.sources(number, tensor)
            here = [move for move in before if move.tensor == tensor]
            joins = [move for move in here if move.movement is Movement.CONCATENATE]
            assert len(joins) == (len(sources) > 1)
            copied = {p for m in here if m.movement is Movement.COPY for p in m.producers}
            assert copied == {p for p in sources if found.scope[p] is not Scope.LOCAL}
            divided = {found.bind[p] for p in set(sources) - copied}
            if len(divided) > 1:
                assert any(move.movement is Movement.REDISTRIBUTE for move in here)


def test_a_reader_that_wants_it_divided_otherwise_sends_a_tensor_to_the_global_buffer() -> None:
    sketch = Sketch((4, 8, 6))
    a = sketch.op("Relu", "x")
    along = sketch.op("Softmax", a, axis=1)
    turned = sketch.op("Transpose", a, perm=[1, 0, 2])
    model = sketch.model(along, turned)
    layers = form_layers(Runner(model).graph)
    splitter = Splitter(layers, 1 << 20, 8)
    alone = [SubGraph(1 << n, splitter.best(1 << n)) for n in range(len(layers))]
    instances = split_into_instances(layers, alone)
    found = infer_bindings(instances, (0, 1, 2), splitter.dimensions, 8)
    # The softmax divides (4, 8, 6) as (4, 1, 2), the turned one (8, 4, 6) as (8, 1, 1).
    assert found.scope[0] is Scope.GLOBAL
    assert set(found.scope[1:]) == {Scope.LOCAL}
    kinds = [(move.movement, move.reader) for move in insert_movements(instances, found)]
    assert kinds == [(Movement.COPY, 1), (Movement.COPY, 2)]


@settings(max_examples=30, deadline=None)
@given(model=networks(), capacity=st.integers(64, 5000))
def test_tiles_are_the_largest_that_fit(model: Any, capacity: int) -> None:
    layers = form_layers(Runner(model).graph)
    boxes = whole_part(layers, (1 << len(layers)) - 1).boxes
    for layer in range(len(layers)):
        made = {t: boxes[t] for t in layers.outputs[layer]}
        found = tile_layer(layers, layer, made, capacity)
        box = made[layers.outputs[layer][-1]]
        extents = [e - b for b, e in box[: len(found.sizes)]]
        assert all(n % s == 0 for n, s in zip(extents, found.sizes, strict=True))
        assert found.tiles * math.prod(found.sizes) == math.prod(extents)
        assert found.nbytes <= capacity or found.sizes == (1, 1)
        assert found.nbytes >= volume(box) // found.tiles * 4
        assert anchor_of(layers, layer) in layers.members[layer]


def test_the_anchor_is_the_convolution() -> None:
    sketch = Sketch((1, 4, 4, 4))
    x = sketch.op("Relu", sketch.op("Conv", "x", sketch.weight(4, 4, 1, 1)))
    layers = form_layers(Runner(sketch.model(sketch.op("MaxPool", x, kernel_shape=[2, 2]))).graph)
    kinds = [layers.graph.operators[anchor_of(layers, n)].kind for n in range(len(layers))]
    assert kinds == ["conv2d", "max_pool2d"]


@st.composite
def lives(draw: st.DrawFn) -> list[Live]:
    begins = [draw(st.integers(0, 8)) for _ in range(draw(st.integers(1, 10)))]
    return [Live(draw(st.integers(1, 9)), b, b + draw(st.integers(0, 6))) for b in begins]


@given(
    tensors=lives(),
    local=st.integers(0, 20),
    shared=st.integers(0, 20),
    key=st.sampled_from((longest_lived, largest)),
)
def test_no_buffer_ever_holds_more_than_it_can(
    tensors: list[Live], local: int, shared: int, key: Any
) -> None:
    sizes = {Scope.LOCAL: local, Scope.GLOBAL: shared}
    scopes = place_tensors(tensors, sizes, key)
    for scope, size in sizes.items():
        held = np.zeros(16, int)
        for tensor, found in zip(tensors, scopes, strict=True):
            if found is scope:
                held[tensor.first : tensor.last + 1] += tensor.nbytes
        assert held.max() <= size
    total = np.zeros(16, int)
    for tensor in tensors:
        total[tensor.first : tensor.last + 1] += tensor.nbytes
    if total.max() <= local:
        assert set(scopes) == {Scope.LOCAL}


def test_figure_12() -> None:
    # out_1 lives across seven tasks, the others across fewer: it is the one that is spilled.
    tensors = [Live(1, 0, 1), Live(1, 0, 6), Live(2, 1, 4), Live(1, 3, 5), Live(1, 4, 6)]
    sizes = {Scope.LOCAL: 4, Scope.GLOBAL: 9}
    assert place_tensors(tensors, sizes)[1] is Scope.GLOBAL
    assert place_tensors(tensors, sizes, largest)[2] is Scope.GLOBAL
