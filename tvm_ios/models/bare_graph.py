"""Bare block graphs: only how many units each block has, and their edges.

This is the form in which schedulers publish their benchmark networks::

    {"name": "...", "blocks": [{"operators": 3, "kinds": ["conv", ...], "edges": [[0, 1], ...]}]}

``kinds`` may be left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tvm_ios.files.json_text import JsonError, json_object
from tvm_ios.graph.elements import GraphError
from tvm_ios.graph.topological import topological_order

#: Far more than can be counted; less than exhausts the memory.
_MOST_UNITS = 100_000


@dataclass(frozen=True, slots=True)
class BareBlock:
    """A block of units, numbered in topological order.

    ``predecessors`` holds for each unit the bit set of the units that it reads; ``kinds`` the name
    of each unit's operator, or is empty if the file has none.
    """

    predecessors: tuple[int, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BareGraph:
    """A network of bare blocks."""

    name: str
    blocks: tuple[BareBlock, ...]


def is_bare_graph(data: object) -> bool:
    """Return whether parsed JSON has the form of a bare block graph."""
    if not isinstance(data, dict):
        return False
    return isinstance(cast(dict[str, Any], data).get("blocks"), list) and "operators" not in data


def load_bare_graph(path: Path) -> BareGraph:
    """Read a file of a bare block graph.

    Raise GraphError if it cannot be read, is not of this format, or a block has a cycle or an edge
    to a unit that does not exist.
    """
    try:
        data = json_object(path.read_bytes())
    except (OSError, JsonError) as error:
        raise GraphError(f"cannot read the block graph {path}: {error}") from error
    if not is_bare_graph(data):
        raise GraphError(f'{path} is not a bare block graph: it has no list of "blocks"')
    return bare_graph(data, str(path))


def bare_graph(data: dict[str, Any], origin: str) -> BareGraph:
    """Return the bare block graph of parsed JSON; ``origin`` is the file's name, for errors.

    Raise GraphError as :func:`load_bare_graph`.
    """
    blocks = [
        _block(block, f"block {number} of {origin}") for number, block in enumerate(data["blocks"])
    ]
    return BareGraph(name=str(data.get("name", origin)), blocks=tuple(blocks))


def _block(data: Any, where: str) -> BareBlock:
    try:
        units, edges, kinds = data["operators"], list(data["edges"]), list(data.get("kinds", []))
    except (KeyError, TypeError, AttributeError) as error:
        raise GraphError(f'{where} needs "operators" and "edges"') from error
    if not _is_count(units):
        raise GraphError(f"{where} has {units!r} operators: give their number")
    if units > _MOST_UNITS:
        raise GraphError(f"{where} has {units} operators: a block has {_MOST_UNITS} at most")
    if kinds and len(kinds) != units:
        raise GraphError(f"{where} has {len(kinds)} kinds for {units} operators")
    before: list[set[int]] = [set() for _ in range(units)]
    for edge in edges:
        if not (isinstance(edge, list) and len(cast(list[Any], edge)) == 2):
            raise GraphError(f"{where} has the edge {edge!r}: give a pair [from, to]")
        ends = cast(list[int], edge)
        if not all(_is_count(end) and end < units for end in ends):
            raise GraphError(
                f"{where} has the edge {edge!r}, but its operators are numbered 0 to {units - 1}"
            )
        before[ends[1]].add(ends[0])
    order = topological_order(before, range(units))
    if cyclic := set(range(units)) - set(order):
        raise GraphError(f"{where} has a cycle: operator {min(cyclic)} waits for itself or for one")
    place = {unit: i for i, unit in enumerate(order)}
    return BareBlock(
        predecessors=tuple(sum(1 << place[p] for p in before[unit]) for unit in order),
        kinds=tuple(str(kinds[unit]) for unit in order) if kinds else (),
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
