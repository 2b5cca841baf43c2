"""Tensors that lie in others: whatever the graph, everyone reads what was written."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from runtime_ext.units.in_place import Arrangement, arrange
from tests.fast_run import examples
from tvm_ios.files.array_files import Array
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph


@cache
def joining(widths: tuple[int, ...], places: tuple[int, ...]) -> Any:
    """A unit that concatenates its inputs; ``places`` are the inputs, possibly several times."""
    builder = relax.BlockBuilder()
    params = [relax.Var(f"p{i}", relax.TensorType((1, w), "float32")) for i, w in enumerate(widths)]
    with builder.function("unit", params, attrs={"num_input": len(widths)}):
        with builder.dataflow():
            fields = [params[place] for place in places]
            result = builder.emit_output(relax.op.concat(fields, axis=1))
        builder.emit_func_output(result)
    return builder.finalize()["unit"]


@cache
def making(width: int) -> Any:
    """A unit that is no concatenation."""
    builder = relax.BlockBuilder()
    param = relax.Var("p", relax.TensorType((1, width), "float32"))
    with builder.function("unit", [param], attrs={"num_input": 1}):
        with builder.dataflow():
            result = builder.emit_output(relax.op.nn.relu(param))
        builder.emit_func_output(result)
    return builder.finalize()["unit"]


class Case:
    """A random graph of units that make tensors or join them; ``fields`` of those that join."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        widths = [rng.randint(1, 4)]
        operators: list[Operator] = []
        self.functions: list[Any] = []
        self.fields: list[tuple[int, ...]] = []
        for number in range(rng.randint(2, 12)):
            recent = range(max(0, len(widths) - rng.choice((3, 5, 20))), len(widths))
            if number > 1 and rng.random() < 0.55:
                count = rng.randint(1, min(4, len(recent)))
                fields = rng.sample(recent, count)
                if rng.random() < 0.1:
                    fields.append(rng.choice(fields))
                inputs = tuple(dict.fromkeys(fields))
                places = tuple(inputs.index(field) for field in fields)
                self.functions.append(joining(tuple(widths[t] for t in inputs), places))
                self.fields.append(tuple(fields))
                widths.append(sum(widths[t] for t in fields))
            else:
                inputs = (rng.choice(recent),)
                self.functions.append(making(widths[inputs[0]]))
                self.fields.append(())
                widths.append(rng.randint(1, 4))
            operators.append(Operator(f"u{number}", "unit", inputs, (len(widths) - 1,)))
        read = {t for op in operators for t in op.inputs}
        outputs = tuple(t for t in range(1, len(widths)) if t not in read or rng.random() < 0.1)
        tensors = tuple(Tensor(f"t{i}", (1, width)) for i, width in enumerate(widths))
        self.graph = OpGraph("random", tuple(operators), tensors, (0,), outputs)

    def any_order(self, rng: random.Random) -> list[int]:
        """The units in an order in which data may flow."""
        done, order = 0, []
        while len(order) < len(self.graph):
            ready = [
                u
                for u, before in enumerate(self.graph.predecessors)
                if not done >> u & 1 and not before & ~done
            ]
            order.append(rng.choice(ready))
            done |= 1 << order[-1]
        return order


class Memory:
    """What lies where while units run."""

    def __init__(self, graph: OpGraph, memory: Arrangement) -> None:
        self._parts = memory.parts
        self._wholes = {
            t: np.full(tensor.shape[1], np.nan)
            for t, tensor in enumerate(graph.tensors)
            if t not in memory.parts
        }

    def view(self, tensor: int) -> Array:
        """The elements of a tensor."""
        part = self._parts.get(tensor)
        if part is None:
            return self._wholes[tensor]
        assert part.axis == 1
        return self._wholes[part.of][part.begin : part.end]


@examples(300)
@given(st.integers(0, 10**9))
def test_everyone_reads_what_was_written(seed: int) -> None:
    case, rng = Case(seed), random.Random(seed)
    graph, memory = case.graph, arrange(case.graph, case.functions)
    places = Memory(graph, memory)
    truth: dict[int, Array] = {0: np.random.default_rng(seed).random(graph.tensors[0].shape[1])}
    places.view(0)[:] = truth[0]
    for unit in case.any_order(rng):
        op, fields = graph.operators[unit], case.fields[unit]
        source = memory.source(case.functions[unit], op.inputs, op.outputs)
        for tensor in op.inputs:
            assert (places.view(tensor) == truth[tensor]).all()
        (output,) = op.outputs
        view = places.view(output)
        assert view.shape == graph.tensors[output].shape[1:]
        if not fields:
            assert not source.in_place
            truth[output] = np.random.default_rng(unit).random(view.shape)
            view[:] = truth[output]
            continue
        truth[output] = np.concatenate([truth[field] for field in fields])
        begin = 0
        for field in fields:
            part = view[begin : begin + graph.tensors[field].shape[1]]
            begin += len(part)
            if op.inputs.index(field) in source.in_place:
                assert np.shares_memory(part, places.view(field))
            else:
                # Tiles of one kernel run side by side: none reads what another may write.
                assert not np.shares_memory(view, places.view(field))
                part[:] = truth[field]
        assert (view == truth[output]).all()
    # Nothing was overwritten by what ran later.
    for tensor, expected in truth.items():
        assert (places.view(tensor) == expected).all()


def test_graphs_do_have_tensors_in_others() -> None:
    """Or the test above would show nothing."""
    counts = [0, 0, 0]
    for seed in range(100):
        case = Case(seed)
        memory = arrange(case.graph, case.functions)
        for op, fields in zip(case.graph.operators, case.fields, strict=True):
            if fields:
                there = len(memory.source(None, op.inputs, op.outputs).in_place)
                counts[0] += there == len(op.inputs)
                counts[1] += 0 < there < len(op.inputs)
                counts[2] += op.outputs[0] in memory.parts
    assert min(counts) > 20
