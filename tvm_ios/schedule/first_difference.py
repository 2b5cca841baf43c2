"""The description of a graph in a schedule file, and where another graph differs from it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from tvm_ios.graph.operators import ANCHORS

if TYPE_CHECKING:
    from tvm_ios.graph.op_graph import OpGraph

_CONSTANT = "a constant"


def describe(graph: OpGraph) -> dict[str, Any]:
    """Return a graph of units as plain data, with all that its fingerprint depends on."""
    makers = {t: f"input {place}" for place, t in enumerate(graph.inputs)}
    units: list[dict[str, Any]] = []
    for number, op in enumerate(graph.operators):
        units.append(
            {
                "kind": op.kind,
                "reads": [makers.get(t, _CONSTANT) for t in op.inputs],
                "input types": [_type(graph, t) for t in op.inputs],
                "output types": [_type(graph, t) for t in op.outputs],
                **{key: op.attrs[key] for key in sorted(op.attrs)},
            }
        )
        for place, tensor in enumerate(op.outputs):
            makers[tensor] = f"unit {number}" + (f" (output {place})" if place else "")
    described = {
        "inputs": [_type(graph, t) for t in graph.inputs],
        "units": units,
        "outputs": [makers.get(t, _CONSTANT) for t in graph.outputs],
    }
    # As read from a file, with lists in place of tuples.
    return json.loads(json.dumps(described))


def has_contraction(unit: Mapping[str, Any]) -> bool:
    """Return whether a described unit contracts channels with weights, so that it can be tuned."""
    kinds = set(str(unit["kind"]).split("+"))
    if kinds & (ANCHORS - {"conv2d"}):
        return True
    if "conv2d" not in kinds:
        return False
    constants = (place for place, read in enumerate(unit["reads"]) if read == _CONSTANT)
    shapes = (_shape(unit, place) for place in constants)
    # Depthwise weights have one channel.
    return any(len(shape) == 4 and shape[1] > 1 for shape in shapes)


def filter_extents(unit: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the (rows, columns) of a described convolution's filters, the largest of several."""
    if "kernel" in unit:
        return tuple(unit["kernel"])
    members, _ = unit["body"]
    weights = (
        [place for source, place in wires if source == 0][-1]
        for kind, _, wires in members
        if kind == "conv2d"
    )
    return max((_shape(unit, place)[2:] for place in weights), key=math.prod)


def _shape(unit: Mapping[str, Any], place: int) -> tuple[int, ...]:
    """Return the shape of a described unit's input, of a type as ``float32[4, 8, 3, 3]``."""
    text = unit["input types"][place]
    return tuple(json.loads(text[text.index("[") :]))


def predecessors(described: Mapping[str, Any]) -> list[int]:
    """Return for each unit of a described graph the bit set of units that it reads from."""
    return [
        sum(1 << n for n in {int(read.split()[1]) for read in unit["reads"] if read[:5] == "unit "})
        for unit in described["units"]
    ]


def kinds(described: Mapping[str, Any]) -> list[str]:
    """Return the kinds of the units of a described graph."""
    return [str(unit["kind"]) for unit in described.get("units", ())]


def first_difference(described: Mapping[str, Any], graph: OpGraph) -> str | None:
    """Return where a graph first differs from a description of another, or None.

    For example ``"unit 3 ('conv_5') has strides [1, 1], there [2, 2]"``. None also if the
    description is missing.
    """
    ours = describe(graph)
    if described.get("inputs", ours["inputs"]) != ours["inputs"]:
        return f"its inputs are {_text(ours['inputs'])}, there {_text(described['inputs'])}"
    theirs = _list(described.get("units", ours["units"]))
    for number, (their_unit, our_unit) in enumerate(zip(theirs, ours["units"], strict=False)):
        if their_unit != our_unit and isinstance(their_unit, dict):
            name = graph.operators[number].name
            return (
                f"unit {number} ({name!r}) {_of_unit(our_unit, cast(dict[str, Any], their_unit))}"
            )
    if len(theirs) != len(graph):
        return f"it has {len(graph)} units, there {len(theirs)}"
    if described.get("outputs", ours["outputs"]) != ours["outputs"]:
        return f"its outputs are {_text(ours['outputs'])}, there {_text(described['outputs'])}"
    return None


def _of_unit(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    key = next(key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key))
    our_value, their_value = ours.get(key), theirs.get(key)
    verb = {"kind": "is", "reads": "reads"}.get(key, f"has {key}")
    if key.endswith("types") and len(_list(our_value)) == len(_list(their_value)):
        pairs = enumerate(zip(_list(our_value), _list(their_value), strict=True))
        place, (our_value, their_value) = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
        verb = f"has {key.removesuffix('s')} {place}"
    return f"{verb} {_text(our_value)}, there {_text(their_value)}"


def _type(graph: OpGraph, tensor: int) -> str:
    described = graph.tensors[tensor]
    return f"{described.dtype}{list(described.shape)}"


def _list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, cast(list[Any], value))) or "nothing"
    return "no such attribute" if value is None else str(value)
