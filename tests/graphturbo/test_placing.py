from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.graphturbo.onnx_networks import Runner, Sketch, networks
from tvm_ios import zoo
from tvm_ios.graph.op_graph import mask_of
from tvm_ios.graphturbo.cluster.binding import (
    divides,
    infer_binding,
    infer_bindings,
    main_output,
    plain_binding,
)
from tvm_ios.graphturbo.cluster.kernel import stitch
from tvm_ios.graphturbo.cluster.moves import Movement, insert_moves
from tvm_ios.graphturbo.cluster.spilling import Live, Scope, place_tensors
from tvm_ios.graphturbo.cluster.tiling import TILE_SHARE, Tiler
from tvm_ios.graphturbo.cluster.workload import in_half_precision, with_batch
from tvm_ios.graphturbo.dimensions import Dimensions
from tvm_ios.graphturbo.footprint import whole_part
from tvm_ios.graphturbo.grouping import SubGraph, group
from tvm_ios.graphturbo.instances import Instances, split_into_instances
from tvm_ios.graphturbo.layers import form_layers
from tvm_ios.graphturbo.orders import order_instances
from tvm_ios.graphturbo.split_info import Splitter
from tvm_ios.onnx.graph import graph_from_onnx


def scheduled(model: Any, capacity: int) -> tuple[Instances, Splitter, tuple[int, ...]]:
    splitter = Splitter(form_layers(Runner(model).graph), capacity, 4)
    instances = split_into_instances(splitter.layers, group(splitter))
    return instances, splitter, order_instances(instances, exact=False)[0].order


def test_plain_bindings_take_cores_from_the_outermost_axis_on() -> None:
    assert plain_binding(((0, 8), (0, 64)), 8) == (8, 1)
    assert plain_binding(((0, 2), (0, 64), (0, 7)), 8) == (2, 4, 1)
    assert plain_binding(((0, 3), (0, 6)), 8) == (1, 2)


@examples(40)
@given(model=networks(), capacity=st.sampled_from((500, 2000, 8000)))
def test_bindings_divide_what_they_bind(model: Any, capacity: int) -> None:
    instances, splitter, order = scheduled(model, capacity)
    bindings = infer_bindings(instances, order, splitter.dimensions, 8)
    for number, bound in enumerate(bindings.bind):
        _, box = main_output(instances, number)
        assert divides(bound, box)
        assert math.prod(bound) >= math.prod(plain_binding(box, 8))
    moves = insert_moves(instances, bindings, splitter.dimensions)
    for number, instance in enumerate(instances.instances):
        before = [move for move in moves if move.reader == number]
        for tensor in instance.needs:
            sources = instances.sources(number, tensor)
            here = [move for move in before if move.tensor == tensor]
            joins = [move for move in here if move.movement is Movement.CONCATENATE]
            assert [move.producers for move in joins] == ([sources] if len(sources) > 1 else [])
            copied = {p for m in here if m.movement is Movement.COPY for p in m.producers}
            assert copied == {p for p in sources if bindings.scope[p] is not Scope.LOCAL}
            # What remains lies as the reader wants it, on no more cores along any axis.
            output, _ = main_output(instances, number)
            bound = bindings.bind[number]
            wanted = infer_binding(splitter.dimensions, output, bound, tensor)
            for move in here:
                assert all(a <= b for a, b in zip(move.binding, wanted, strict=bool(wanted)))


def test_a_reader_that_wants_it_divided_otherwise_sends_a_tensor_to_the_global_buffer() -> None:
    sketch = Sketch((4, 8, 6))
    a = sketch.op("Relu", "x")
    along = sketch.op("Softmax", a, axis=1)
    turned = sketch.op("Transpose", a, perm=[1, 0, 2])
    layers = form_layers(Runner(sketch.model(along, turned)).graph)
    splitter = Splitter(layers, 1 << 20, 8)
    alone = [SubGraph(1 << n, splitter.best(1 << n)) for n in range(len(layers))]
    instances = split_into_instances(layers, alone)
    bindings = infer_bindings(instances, (0, 1, 2), splitter.dimensions, 8)
    # The softmax divides (4, 8, 6) as (4, 1, 2), the turned one (8, 4, 6) as (8, 1, 1).
    assert bindings.scope[0] is Scope.GLOBAL
    assert set(bindings.scope[1:]) == {Scope.LOCAL}
    moves = insert_moves(instances, bindings, splitter.dimensions)
    assert [(m.movement, m.reader) for m in moves] == [(Movement.COPY, 1), (Movement.COPY, 2)]


def test_the_14_edges_of_resnet50() -> None:
    """Figure 8: each instance but the first ones collects two pieces, of which none is left out."""
    graph = in_half_precision(with_batch(graph_from_onnx(zoo.build("resnet50")), 8))
    splitter = Splitter(form_layers(graph), 8 << 20)
    instances = split_into_instances(splitter.layers, group(splitter))
    assert [subgraph.factor for subgraph in instances.subgraphs] == [8, 4, 2, 1]
    order = order_instances(instances, exact=False)[0].order
    bindings = infer_bindings(instances, order, splitter.dimensions, 8)
    moves = insert_moves(instances, bindings, splitter.dimensions)
    joins = [move for move in moves if move.movement is Movement.CONCATENATE]
    assert sum(len(move.producers) for move in joins) == 14
    assert len(joins) == 7
    edges = {
        (p, m.reader) for m in moves if m.movement is Movement.REDISTRIBUTE for p in m.producers
    }
    # One image lies on eight cores by channels; its reader wants two of them by images.
    for producer, reader in edges:
        assert instances.predecessors[reader] >> producer & 1
        _, piece = main_output(instances, producer)
        assert bindings.bind[producer] == plain_binding(piece, 8)
    assert len(edges) == 14
    assert all(math.prod(move.binding) < 8 for move in moves)


@examples(30)
@given(model=networks(), capacity=st.integers(64, 5000), most=st.integers(1, 4))
def test_tiles_are_the_largest_that_fit(model: Any, capacity: int, most: int) -> None:
    layers = form_layers(Runner(model).graph)
    boxes = whole_part(layers, (1 << len(layers)) - 1).boxes
    tiler = Tiler(layers, Dimensions(layers.graph), capacity)
    alone = [tiler.tile((n,), boxes) for n in range(len(layers))]
    for tiling in alone:
        assert tiling is not None
        assert tiling.fits == (tiling.nbytes <= capacity * TILE_SHARE)
        assert (tiling.tiles == 1) == (not tiling.loops)
        assert tiling.tiles % tiling.weight_passes == tiling.tiles % tiling.input_passes == 0
    runs = stitch(tiler, (1 << len(layers)) - 1, boxes, lambda t: tiler.traffic(t, boxes), most)
    assert [layer for run in runs for layer in run.run] == list(range(len(layers)))
    assert all(run.fits for run in runs if len(run.run) > 1)
    assert max(len(run.run) for run in runs) <= most
    traffic = sum(tiler.traffic(run, boxes) for run in runs)
    assert traffic <= sum(tiler.traffic(tiling, boxes) for tiling in alone if tiling)


def test_two_convolutions_exchange_rows() -> None:
    """A chain of 3x3 convolutions in tiles of rows: each row is read and made once."""
    sketch = Sketch((1, 4, 16, 16))
    x = "x"
    for _ in range(2):
        x = sketch.op("Conv", x, sketch.weight(4, 4, 3, 3), pads=[1, 1, 1, 1])
    layers = form_layers(Runner(sketch.model(x)).graph)
    boxes = whole_part(layers, mask_of(range(2))).boxes
    row = 4 * 16 * 4
    # Six rows of the input, four between, two of them kept, and two each of the next and last tile.
    tiler = Tiler(layers, Dimensions(layers.graph), 26 * row)
    both = tiler.tile((0, 1), boxes)
    assert both is not None
    assert both.loops == ((2, 2),)
    middle = layers.outputs[0][0]
    begin, end = both.boxes[middle][2]
    assert end - begin == 4  # two rows, and one above and below
    weights = sum(layers.weight_bytes)
    assert both.weight_passes == (8 if weights > tiler.weight_buffer else 1)
    assert tiler.traffic(both, boxes) == 2 * 16 * row + weights * both.weight_passes
    assert Tiler(layers, Dimensions(layers.graph), 4 * row).tile((0, 1), boxes) is None


@st.composite
def lives(draw: st.DrawFn) -> list[Live]:
    spans = st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(0, 5))
    return [Live(size, first, first + span) for size, first, span in draw(st.lists(spans))]


@given(
    tensors=lives(),
    local=st.integers(0, 20),
    shared=st.integers(0, 20),
    taken=st.lists(st.integers(0, 9), min_size=16, max_size=16),
)
def test_no_buffer_ever_holds_more_than_it_can(
    tensors: list[Live], local: int, shared: int, taken: list[int]
) -> None:
    sizes = {Scope.LOCAL: local, Scope.GLOBAL: shared}
    scopes = place_tensors(tensors, sizes, {Scope.LOCAL: taken})
    for scope, size in sizes.items():
        held = np.zeros(16, int)
        for tensor, found in zip(tensors, scopes, strict=True):
            if found is scope:
                held[tensor.first : tensor.last + 1] += tensor.nbytes
        room = size - np.array(taken) if scope is Scope.LOCAL else size
        assert np.all((held <= room) | (held == 0))
    roomy = place_tensors(tensors, {Scope.LOCAL: 1000, Scope.GLOBAL: 0})
    assert set(roomy) <= {Scope.LOCAL}


def test_figure_12() -> None:
    """The tensor that lives across seven tasks goes first, though others are larger."""
    tensors = [Live(1, 0, 1), Live(1, 0, 6), Live(2, 1, 4), Live(1, 3, 5), Live(1, 4, 6)]
    sizes = {Scope.LOCAL: 4, Scope.GLOBAL: 9}
    assert place_tensors(tensors, sizes)[1] is Scope.GLOBAL


@pytest.mark.parametrize(("bound", "asked"), [((1, 8, 1, 1), ()), ((2, 4, 1, 1), (2, 1, 1, 1))])
def test_channels_of_a_convolution_need_all_channels(
    bound: tuple[int, ...], asked: tuple[int, ...]
) -> None:
    sketch = Sketch((2, 8, 4, 4))
    graph = Runner(sketch.model(sketch.op("Conv", "x", sketch.weight(8, 8, 1, 1)))).graph
    assert infer_binding(Dimensions(graph), graph.outputs[0], bound, graph.inputs[0]) == asked
