"""Operator graphs: fingerprints, JSON, derived sets, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.graph_sketch import GraphSketch, graphs
from tests.refusals import refused
from tvm_ios.graph.elements import GraphError, Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph, bits, mask_of

masks = st.integers(0, 1 << 90)


@given(st.sets(st.integers(0, 200)))
def test_bit_sets(members: set[int]) -> None:
    assert list(bits(mask_of(members))) == sorted(members)
    assert mask_of(bits(mask_of(members))) == mask_of(members)


def reordered(graph: OpGraph, order: list[int]) -> OpGraph:
    """The same graph with its operators in another order and its tensors numbered anew."""
    tensors = list(range(len(graph.tensors)))[::-1]
    number = {old: new for new, old in enumerate(tensors)}
    operators = tuple(
        replace(
            graph.operators[i],
            inputs=tuple(number[t] for t in graph.operators[i].inputs),
            outputs=tuple(number[t] for t in graph.operators[i].outputs),
        )
        for i in order
    )
    return OpGraph(
        graph.name,
        operators,
        tuple(graph.tensors[t] for t in tensors),
        tuple(number[t] for t in graph.inputs),
        tuple(number[t] for t in graph.outputs),
    )


def renamed(graph: OpGraph) -> OpGraph:
    return replace(
        graph,
        name="another",
        operators=tuple(replace(o, name=f"op {i}") for i, o in enumerate(graph.operators)),
        tensors=tuple(replace(t, name=f"tensor {i}") for i, t in enumerate(graph.tensors)),
    )


@given(graphs())
def test_names_are_decoration(graph: OpGraph) -> None:
    assert renamed(graph).fingerprint == graph.fingerprint


@given(graphs(), st.data())
def test_the_order_of_independent_operators_is_decoration(
    graph: OpGraph, data: st.DataObject
) -> None:
    done, order = 0, []
    while len(order) < len(graph):
        ready = [
            i for i in range(len(graph)) if not done >> i & 1 and not graph.predecessors[i] & ~done
        ]
        order.append(data.draw(st.sampled_from(ready)))
        done |= 1 << order[-1]
    assert reordered(graph, order).fingerprint == graph.fingerprint


@given(graphs(), st.data())
def test_kinds_attributes_and_types_are_covered(graph: OpGraph, data: st.DataObject) -> None:
    which = data.draw(st.integers(0, len(graph) - 1))
    old = graph.operators[which]
    output = old.outputs[0]
    for changed in (replace(old, kind="other"), replace(old, attrs={**old.attrs, "new": 1})):
        operators = (*graph.operators[:which], changed, *graph.operators[which + 1 :])
        assert replace(graph, operators=operators).fingerprint != graph.fingerprint
    for tensor in (Tensor("t", (2, 3)), Tensor("t", graph.tensors[output].shape, "float16")):
        tensors = (*graph.tensors[:output], tensor, *graph.tensors[output + 1 :])
        assert replace(graph, tensors=tensors).fingerprint != graph.fingerprint


@given(graphs(), st.data())
def test_edges_are_covered(graph: OpGraph, data: st.DataObject) -> None:
    """Reading another tensor, of another history, is another graph."""
    which = data.draw(st.integers(0, len(graph) - 1))
    op = graph.operators[which]
    earlier = {*graph.inputs, *(t for o in graph.operators[:which] for t in o.outputs)}
    others = sorted(earlier - {op.inputs[0]})
    assume(others)
    other = data.draw(st.sampled_from(others))
    changed = replace(op, inputs=(other, *op.inputs[1:]))
    operators = (*graph.operators[:which], changed, *graph.operators[which + 1 :])
    twin = replace(graph, operators=operators)
    assume(history(twin, other) != history(graph, op.inputs[0]))
    assert twin.fingerprint != graph.fingerprint


def history(graph: OpGraph, tensor: int) -> Any:
    """How a tensor is computed, written out in full."""
    maker = graph.producer[tensor]
    if maker is None:
        return (tensor if tensor in graph.inputs else "constant", graph.tensors[tensor].shape)
    op = graph.operators[maker]
    wires = tuple(history(graph, t) for t in op.inputs)
    return op.kind, tuple(sorted(op.attrs.items())), wires, op.outputs.index(tensor)


def test_which_of_two_equal_operators_is_read_is_covered() -> None:
    """Two equal convolutions: the readers share one, or have one each."""

    def graph(shared: bool) -> OpGraph:
        sketch = GraphSketch()
        first, second = sketch.conv(0), sketch.conv(0)
        readers = [sketch.op("relu", first), sketch.op("tanh", first if shared else second)]
        return sketch.graph(sketch.op("concat", *readers, *((second,) if shared else (first,))))

    assert graph(True).fingerprint != graph(False).fingerprint


def test_outputs_and_their_order_are_covered() -> None:
    sketch = GraphSketch()
    a, b = sketch.op("relu", 0), sketch.op("tanh", 0)
    fingerprints = {
        sketch.graph(*outputs).fingerprint for outputs in ((a, b), (b, a), (a,), (a, b, b))
    }
    assert len(fingerprints) == 4


def test_inputs_are_told_apart() -> None:
    def graph(first: int) -> OpGraph:
        sketch = GraphSketch(inputs=2)
        return sketch.graph(sketch.op("subtract", first, 1 - first))

    assert graph(0).fingerprint != graph(1).fingerprint


@given(graphs())
def test_json_there_and_back(graph: OpGraph) -> None:
    again = OpGraph.from_json(json.loads(json.dumps(graph.to_json())))
    assert again == graph
    assert again.fingerprint == graph.fingerprint


def test_nested_attributes_come_back_as_tuples() -> None:
    sketch = GraphSketch()
    sketch.op("odd", 0, body=((1, (2.5, "x")), (True, ())), empty=())
    graph = sketch.graph()
    assert OpGraph.from_json(json.loads(json.dumps(graph.to_json()))) == graph


@given(graphs())
def test_derived_sets_by_definition(graph: OpGraph) -> None:
    size = len(graph)
    reads = [{p for t in o.inputs if (p := graph.producer[t]) is not None} for o in graph.operators]
    assert [set(bits(m)) for m in graph.predecessors] == reads
    assert [set(bits(m)) for m in graph.successors] == [
        {i for i in range(size) if p in reads[i]} for p in range(size)
    ]
    closed: list[set[int]] = []
    for before in reads:
        closed.append(before.union(*(closed[p] for p in before)))
    assert [set(bits(m)) for m in graph.ancestors] == closed
    for tensor, readers in enumerate(graph.consumers):
        assert list(readers) == [i for i, o in enumerate(graph.operators) if tensor in o.inputs]
    assert graph.all_operators == mask_of(range(size))


def test_bytes_count_each_tensor_once() -> None:
    sketch = GraphSketch()
    y = sketch.conv(0, bias=False)
    sketch.op("add", y, y)
    graph = sketch.graph()
    image, weight = 4 * 4 * 64, 4 * 4 * 4 * 9
    assert graph.operator_bytes(0) == 2 * image + weight
    assert graph.operator_bytes(1) == 2 * image
    assert Tensor("t", (3, 5), "int64").nbytes == 120
    assert Tensor("t", (), "bool").nbytes == 1


@pytest.mark.parametrize(("shape", "batch"), [((8, 3), 8), ((), 1), (None, 1)])
def test_batch(shape: tuple[int, ...] | None, batch: int) -> None:
    tensors = () if shape is None else (Tensor("x", shape),)
    assert OpGraph("g", (), tensors, tuple(range(len(tensors))), ()).batch == batch


def _op(inputs: tuple[int, ...], outputs: tuple[int, ...], name: str = "f") -> Operator:
    return Operator(name, "f", inputs, outputs)


BROKEN = {
    "before": (
        [_op((2,), (1,), "early"), _op((0,), (2,))],
        (1,),
        ("'early'", "'t2'"),
    ),
    "itself": ([_op((1,), (1,), "loop")], (1,), ("'loop'", "'t1'")),
    "two producers": ([_op((0,), (1,)), _op((0,), (1,))], (1,), ("'t1'", "two")),
    "input made": ([_op((0,), (0,))], (0,), ("'t0'", "two")),
    "twice in one": ([_op((0,), (1, 1))], (1,), ("'t1'", "two")),
    "no output": ([_op((0,), (1,))], (2,), ("output 't2'",)),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_graph_is_refused(case: str) -> None:
    operators, outputs, named = BROKEN[case]
    tensors = tuple(Tensor(f"t{i}", (4,)) for i in range(3))
    with refused(GraphError, *named):
        OpGraph("broken", tuple(operators), tensors, (0,), outputs)


MALFORMED: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "format": (lambda d: d.update(format="tvm-ios schedule"), "version 1"),
    "version": (lambda d: d.update(version="1"), "version 1"),
    "no operators": (lambda d: d.pop("operators"), "'operators'"),
    "no kind": (lambda d: d["operators"][0].pop("kind"), "'kind'"),
    "tensor": (lambda d: d["tensors"].__setitem__(0, ["x", [1]]), "graph file"),
    "tensors": (lambda d: d.update(tensors=5), "graph file"),
    "attributes": (lambda d: d["operators"][0].update(attrs=[1]), "graph file"),
    "number": (lambda d: d["operators"][0].update(inputs=[99]), "tensor 99"),
    "output": (lambda d: d.update(outputs=[99]), "tensor 99"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_data_is_refused(case: str) -> None:
    change, named = MALFORMED[case]
    sketch = GraphSketch()
    sketch.conv(0)
    data = json.loads(json.dumps(sketch.graph().to_json()))
    change(data)
    with refused(GraphError, named):
        OpGraph.from_json(data)
