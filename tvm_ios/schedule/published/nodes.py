"""The file format of IOS's published implementation: blocks of nodes and their stages.

A node is the item that a schedule moves. Convolutions that a schedule merges are stored as one
node, whose ``hint_name`` joins their names: ``"8 9 11"``. A reader of one of them reads a range of
the node's channels. A node's inputs are terms, concatenated along the channels; the values of a
term are added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_ios.files.json_text import JsonError, natural, naturals

#: Types of nodes that need no kernel of their own: joins, sums, activations.
_ELEMENTWISE = ("identity", "element", "relu", "activation")


@dataclass(frozen=True, slots=True)
class Value:
    """The channels ``[begin, end)`` of a node's result."""

    node: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a published schedule: a convolution, several merged ones, a pool or a join.

    ``parts`` is the number of merged convolutions, or 1. ``shape`` is the result's (channels, rows,
    columns). ``weights`` has the weights' shape of each convolution: output channels, input
    channels of a group, rows, columns. ``pool`` is ``"max"``, ``"avg"``, ``"global_avg"`` or empty.
    ``window`` has rows, columns and strides of a pool that is not global.
    """

    name: str
    parts: int
    reads: tuple[Value, ...]
    shape: tuple[int, int, int]
    weights: tuple[tuple[int, ...], ...] = ()
    pool: str = ""
    window: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return text for errors: ``node 12 (a 3x3 convolution of 8 to 96x35x35)``."""
        windows = " and ".join(f"{rows}x{columns}" for *_, rows, columns in self.weights)
        merged = f"{self.parts} merged convolutions, {windows}," if self.parts > 1 else ""
        what = (
            merged
            or (f"a {self.pool} pooling" if self.pool else "")
            or (f"a {windows} convolution" if windows else "a join")
        )
        sources = ", ".join(dict.fromkeys(value.node for value in self.reads))
        return f"node {self.name} ({what} of {sources} to {'x'.join(map(str, self.shape))})"


@dataclass(frozen=True, slots=True)
class Block:
    """Nodes in topological order, and the stages in which they run."""

    nodes: tuple[Node, ...]
    stages: tuple[tuple[tuple[str, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class PublishedSchedule:
    """The content of a published schedule file.

    ``source`` is the name of the network's input. ``blocks`` are in the order of execution.
    """

    source: str
    blocks: tuple[Block, ...]


def is_published(data: Mapping[str, Any]) -> bool:
    """Return whether parsed JSON looks like a published schedule file."""
    return "format" not in data and {"name", "input", "blocks"} <= data.keys()


def published_schedule(data: Mapping[str, Any]) -> PublishedSchedule:
    """Parse such a file. Malformed data raise KeyError, TypeError, ValueError or AttributeError."""
    channels = {str(data["input"]["name"]): _extents(data["input"]["output_shape"])[0]}
    blocks = [_block(block, channels) for block in data["blocks"]]
    return PublishedSchedule(str(data["input"]["name"]), tuple(blocks))


def _block(data: Mapping[str, Any], channels: dict[str, int]) -> Block:
    nodes: list[Node] = []
    for described in (*data["inner_nodes"], data["exit_node"]):
        node = _node(described, channels)
        if node.name in channels:
            raise ValueError(f"node {node.name} twice")
        channels[node.name] = node.shape[0]
        nodes.append(node)
    stages = tuple(tuple(tuple(map(str, group)) for group in stage) for stage in data["stages"])
    return Block(tuple(nodes), stages)


def _node(data: Mapping[str, Any], channels: Mapping[str, int]) -> Node:
    kind = str(data["type"])
    if kind not in _READERS and kind not in _ELEMENTWISE:
        raise ValueError(f"nodes of the type {kind!r}")
    is_chain = kind == "sequential"
    terms = (data["nodes"][0] if is_chain else data)["inputs"]
    reads = tuple(Value(str(node), natural(b), natural(e)) for term in terms for node, b, e in term)
    for value in reads:
        if not value.begin < value.end <= channels.get(value.node, 0):
            raise ValueError(
                f"node {data['name']}, which reads the channels {value.begin} to {value.end} of "
                f"node {value.node}"
            )
    read = sum(natural(term[0][2]) - natural(term[0][1]) for term in terms)
    parts = len(str(data["hint_name"]).split()) if kind == "conv" else 1
    details = _READERS[kind](data, read) if kind in _READERS else {}
    return Node(str(data["name"]), max(1, parts), reads, _extents(data["output_shape"]), **details)


def _convolution(data: Mapping[str, Any], channels: int) -> dict[str, Any]:
    return {"weights": (_weight(data, channels),)}


def _chain(data: Mapping[str, Any], channels: int) -> dict[str, Any]:
    weights: list[tuple[int, ...]] = []
    for member in data["nodes"]:
        if member["type"] == "conv":
            weights.append(_weight(member, channels))
            channels = weights[-1][0]
    return {"weights": tuple(weights)}


def _pooling(data: Mapping[str, Any], _: int) -> dict[str, Any]:
    pool = str(data["pool_type"])
    if pool.startswith("global"):
        return {"pool": pool}
    return {"pool": pool, "window": (*naturals(data["kernel"]), *naturals(data["stride"]))}


_READERS: dict[str, Callable[[Mapping[str, Any], int], dict[str, Any]]] = {
    "conv": _convolution,
    "sequential": _chain,
    "pool": _pooling,
}


def _weight(data: Mapping[str, Any], channels: int) -> tuple[int, ...]:
    rows, columns = naturals(data["kernel"])
    groups = natural(data["groups"])
    if not groups:
        raise ValueError("a convolution of no groups")
    return natural(data["out_channels"]), channels // groups, rows, columns


def _extents(data: Sequence[Any]) -> tuple[int, int, int]:
    extents = naturals(data)
    if len(extents) != 3:
        raise JsonError(f"{str(data)[:40]!r} where channels, rows and columns should be")
    return extents[0], extents[1], extents[2]
