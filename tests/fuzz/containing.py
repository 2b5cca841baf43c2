"""Control flow, sequences and computed shapes that constants decide, drawn at random."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from .drawn_network import Draw, Network, Value


def _typed(name: str, shape: tuple[int, ...] | None, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def _branches(net: Network, x: Value) -> str:
    """Of a condition that is constant or computed; both branches read what is outside."""
    other = net.pick(x.name, net.weight(*x.shape))
    known = net.const(np.array(net.pick(True, False)))
    condition = known
    if x.exact and net.pick(True, False):
        condition = net.op("Greater", net.op("ReduceMax", x.name, keepdims=0), net.const(0.5))
    inside = f"b{len(net.nodes)}"
    graphs: dict[str, Any] = {
        f"{branch}_branch": helper.make_graph(
            [helper.make_node(kind, names, [f"{inside}_{branch}"])],
            branch,
            [],
            [_typed(f"{inside}_{branch}", x.shape)],
        )
        for branch, kind, names in (
            ("then", net.pick("Relu", "Neg", "Tanh"), [x.name]),
            ("else", net.pick("Add", "Mul"), [x.name, other]),
        )
    }
    return net.op("If", condition, **graphs)


def _loop(net: Network, x: Value) -> Any:
    """A value that is carried, and what each round makes."""
    s = f"l{len(net.nodes)}_"
    half = net.const(0.5)
    nodes = [
        helper.make_node("Identity", [s + "going"], [s + "on"]),
        helper.make_node("Mul", [s + "carried", half], [s + "less"]),
        helper.make_node("Cast", [s + "round"], [s + "number"], to=TensorProto.FLOAT),
        helper.make_node(net.pick("Add", "Sub"), [s + "less", s + "number"], [s + "next"]),
        helper.make_node("Add", [s + "next", x.name], [s + "made"]),
    ]
    inputs = [
        _typed(s + "round", (), TensorProto.INT64),
        _typed(s + "going", (), TensorProto.BOOL),
        _typed(s + "carried", x.shape),
    ]
    outputs = [_typed(s + "on", (), TensorProto.BOOL)]
    outputs += [_typed(s + name, x.shape) for name in ("next", "made")]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    trips = net.pick(1, 2, 3)
    count, going = net.const(np.array(trips)), net.const(np.array(True))
    names = net.op("Loop", count, going, x.name, outputs=2, body=body)
    net.state_shape(names[0], x.shape)
    net.state_shape(names[1], (trips, *x.shape))
    return names


def _scan(net: Network, x: Value) -> Any:
    """Running sums over an axis, in either direction."""
    if not x.shape:
        return None
    s = f"s{len(net.nodes)}_"
    axis = int(net.random.integers(len(x.shape)))
    rest = x.shape[:axis] + x.shape[axis + 1 :]
    kind = net.pick("Add", "Max", "Sub")
    body = helper.make_graph(
        [
            helper.make_node(kind, [s + "state", s + "part"], [s + "sum"]),
            helper.make_node("Tanh", [s + "sum"], [s + "made"]),
        ],
        "body",
        [_typed(s + "state", rest), _typed(s + "part", rest)],
        [_typed(s + "sum", rest), _typed(s + "made", rest)],
    )
    places = {
        "scan_input_axes": [axis],
        "scan_input_directions": [net.pick(0, 1)],
        "scan_output_directions": [net.pick(0, 1)],
    }
    start = net.const(np.zeros(rest))
    names = net.op("Scan", start, x.name, outputs=2, body=body, num_scan_inputs=1, **places)
    net.state_shape(names[0], rest)
    net.state_shape(names[1], (x.shape[axis], *rest))
    return names


def _sequence(net: Network, x: Value) -> str | None:
    if not x.shape or net.pick(True, False):
        parts = [x.name, net.op("Neg", x.name), net.op("Relu", x.name)]
        sequence, count = net.op("SequenceConstruct", *parts), net.pick(3, 2)
        if count == 2:
            sequence = net.op("SequenceErase", sequence, net.const(np.array(net.pick(0, -1))))
        extra = net.pick(0, 1) if x.shape else 1
        result = net.op("ConcatFromSequence", sequence, axis=0, new_axis=extra)
        shape = (count, *x.shape) if extra else (count * x.shape[0], *x.shape[1:])
        net.state_shape(result, shape)
        return result
    axis = net.axis(x)
    keep = net.pick(0, 1)
    sequence = net.op("SplitToSequence", x.name, axis=axis, keepdims=keep)
    place = int(net.random.integers(-x.shape[axis], x.shape[axis]))
    result = net.op("SequenceAt", sequence, net.const(np.array(place)))
    before, after = x.shape[:axis], x.shape[axis:][1:]
    net.state_shape(result, (*before, *((1,) if keep else ()), *after))
    return result


def _computed_shape(net: Network, x: Value) -> str | None:
    """A shape that an exporter computes of another."""
    if len(x.shape) < 2:
        return None
    shape = net.op("Shape", x.name)
    match net.pick("flat", "filled", "counted", "expanded"):
        case "flat":
            first = net.op("Gather", shape, net.const(np.array([0])))
            rest = net.op("Div", net.op("Size", x.name), first)
            new = net.op("Concat", first, rest, axis=0)
            result = net.op("Reshape", x.name, new)
            net.state_shape(result, (x.shape[0], prod(x.shape[1:])))
            return result
        case "filled":
            filler = helper.make_tensor("f", TensorProto.FLOAT, [1], [0.5])
            result = net.op("Add", net.op("ConstantOfShape", shape, value=filler), x.name)
        case "counted":
            last = net.op("Gather", shape, net.const(np.array(-1)))
            bounds = net.const(np.array(0)), last, net.const(np.array(1))
            numbers = net.op("Cast", net.op("Range", *bounds), to=TensorProto.FLOAT)
            result = net.op("Add", x.name, numbers)
        case _:
            row = net.weight(*x.shape[1:])
            result = net.op("Mul", net.op("Expand", row, shape), x.name)
    net.state_shape(result, x.shape)
    return result


CONTAINS: list[Draw] = [_branches, _loop, _scan, _sequence, _computed_shape]
