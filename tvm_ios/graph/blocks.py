"""Cut a graph of units into blocks, which are scheduled one after another."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from tvm_ios.errors import SearchError
from tvm_ios.graph.branch_symmetry import representative_down_sets, symmetry_of
from tvm_ios.graph.components import components
from tvm_ios.graph.down_sets import WORD_UNITS, Masks, down_sets
from tvm_ios.graph.equal_branches import equal_branches
from tvm_ios.graph.op_graph import OpGraph, bits, mask_of

#: A block with more states than this takes minutes to search: it is cut where that is possible.
MAX_STATES = 20_000
#: The same of states that stand for others: of many equal branches they have very many endings.
MAX_REPRESENTATIVES = 3_500

#: A boundary that more tensors cross is not a narrow place.
_NARROW = 8


def cut_blocks(
    graph: OpGraph, max_block: int = 40, *, branches_as_one: bool = False
) -> tuple[int, ...]:
    """Return the blocks of a graph as bit sets of units, in order of execution.

    A boundary between blocks is a set of units closed under predecessors. A graph of several
    components that is too large for one block has its components cut one after another. A graph is
    cut wherever all that follows reads one unit and nothing before it, which costs nothing: no
    schedule could run anything of what follows earlier. Runs of blocks of one unit become one
    block.

    A block that is still larger than ``max_block``, or has more than :data:`MAX_STATES` sets of
    units that are closed under predecessors, is cut after units that join several others, with all
    that these depend on: first where two tensors cross (NASNet, whose cells read the two cells
    before them), then three, and so on up to eight. Each time the nested boundaries with the
    smallest sum of squared block sizes are taken, where each cut must gain more than ``max_block``.
    A graph without narrow places (an unrolled recurrent network of many layers) is cut between
    levels, the units that are as far from the start, which keeps what can run side by side
    together.

    With ``branches_as_one``, equal branches (:mod:`tvm_ios.graph.equal_branches`) count as one
    branch, and sets that differ only by which of them they hold as one set, in blocks of up to 63
    units. Raise ValueError if ``max_block`` is not positive.
    """
    if max_block < 1:
        raise ValueError(f"max_block must be positive, not {max_block}")
    if not len(graph):
        return ()
    parts = components(graph)
    if len(parts) > 1:
        whole = _Boundaries(graph, branches_as_one, 0, graph.all_operators)
        if whole.fits(0, graph.all_operators, max_block):
            parts = (graph.all_operators,)
    blocks: list[int] = []
    before = 0
    for part in parts:
        boundaries = _Boundaries(graph, branches_as_one, before, part)
        joints = [before, *boundaries.joints(), before | part]
        segments = [(a, b) for a, b in itertools.pairwise(joints) if a != b]
        for below, above in _join_chains(segments, max_block):
            cuts = _refine(boundaries, below, above, 2, max_block)
            blocks += [b & ~a for a, b in itertools.pairwise(cuts)]
        before |= part
    return tuple(blocks)


class _Boundaries:
    """The candidate boundaries of a part of a graph, with the tensors that cross each.

    Units before the part, which it does not read, are below all boundaries.
    """

    def __init__(self, graph: OpGraph, branches_as_one: bool, before: int, part: int) -> None:
        self._graph, self._as_one = graph, branches_as_one
        self._readers = [
            (graph.producer[tensor], mask_of(readers) & part)
            for tensor, readers in enumerate(graph.consumers)
            if readers and not graph.tensors[tensor].constant and mask_of(readers) & part
        ]
        self._predecessors, self._successors = graph.predecessors, graph.successors
        self._units = list(bits(part))
        self._ideals = [before | graph.ancestors[unit] | 1 << unit for unit in self._units]
        # A branch that is cut before it joins others leaves blocks that differ for no reason.
        joins = (graph.predecessors[unit].bit_count() > 1 for unit in self._units)
        self._at_joins = set(itertools.compress(self._ideals, joins))

    def _makers(self, below: int) -> Iterator[int | None]:
        """Yield the producers of the tensors that cross; None for an input of the graph."""
        return (
            maker
            for maker, readers in self._readers
            if (maker is None or below >> maker & 1) and readers & ~below
        )

    def crossing(self, below: int) -> int:
        """Count the tensors made inside the set, or graph inputs, that are read outside it.

        Counting stops as soon as the boundary is not narrow.
        """
        return sum(1 for _ in itertools.islice(self._makers(below), _NARROW + 1))

    def joints(self) -> list[int]:
        """Return nested sets whose last unit is all that the rest reads, smallest first."""
        of_inputs = 0
        for maker, readers in self._readers:
            of_inputs |= readers if maker is None else 0
        #: For each unit the readers of graph inputs and of results of units that it depends on.
        reading: dict[int, int] = {}
        for unit in self._units:
            reading[unit] = of_inputs
            for source in bits(self._predecessors[unit]):
                reading[unit] |= reading[source] | self._successors[source]
        return _by_size(
            {
                below
                for unit, below in zip(self._units, self._ideals, strict=True)
                if not reading[unit] & ~below
            }
        )

    def between(self, below: int, above: int) -> list[int]:
        """Return the candidates strictly between two boundaries, smallest first."""
        return _by_size({(mask | below) & above for mask in self._at_joins} - {below, above})

    def fits(self, below: int, above: int, size: int) -> bool:
        """Return whether the units between two boundaries are a block that can be searched."""
        units = list(bits(above & ~below))
        place = {unit: position for position, unit in enumerate(units)}
        local = [
            mask_of(place[p] for p in bits(self._predecessors[unit] & ~below)) for unit in units
        ]
        if len(units) <= size and _has_few_states(down_sets, MAX_STATES, local):
            return True
        if not self._as_one or len(units) > WORD_UNITS:
            return False
        classes = equal_branches(self._graph, above & ~below, below)
        symmetry = symmetry_of(units, classes)
        if symmetry is None:
            return False
        repeated = {unit for branches in classes for branch in branches[1:] for unit in branch}
        return len(units) - len(repeated) <= size and _has_few_states(
            representative_down_sets, MAX_REPRESENTATIVES, local, symmetry
        )

    def levels(self, below: int, above: int, size: int) -> list[int]:
        """Return few boundaries between levels; too large levels are cut into equal parts."""
        # So many units of which none depends on another have no more states than allowed.
        most = min(size, MAX_STATES.bit_length() - 1)
        cuts = [below]
        last = below
        for level in self._levels(below, above):
            if self.fits(cuts[-1], last | level, size):
                last |= level
                continue
            units = list(bits(level))
            parts = -(-len(units) // most)
            bounds = [number * len(units) // parts for number in range(parts + 1)]
            for low, high in itertools.pairwise(bounds):
                if last != cuts[-1]:
                    cuts.append(last)
                last |= mask_of(units[low:high])
        return cuts[1:]

    def _levels(self, below: int, above: int) -> list[int]:
        """Return the units between two boundaries, by their longest path from the first."""
        depth: dict[int, int] = {}
        levels: list[int] = []
        for unit in bits(above & ~below):
            sources = bits(self._predecessors[unit] & ~below)
            depth[unit] = 1 + max((depth[source] for source in sources), default=-1)
            levels += [0] * (depth[unit] + 1 - len(levels))
            levels[depth[unit]] |= 1 << unit
        return levels


def _has_few_states(enumerate_states: Callable[..., Masks], most: int, *block: object) -> bool:
    try:
        enumerate_states(*block, most=most)
    except SearchError:
        return False
    return True


def _by_size(masks: set[int]) -> list[int]:
    return sorted(masks, key=lambda mask: (mask.bit_count(), mask))


def _join_chains(segments: list[tuple[int, int]], max_block: int) -> list[tuple[int, int]]:
    """Join neighbouring blocks of one unit each: nothing in them can run side by side."""
    joined: list[tuple[int, int]] = []
    chain = False
    for below, above in segments:
        single = (above & ~below).bit_count() == 1
        if chain and single and (above & ~joined[-1][0]).bit_count() <= max_block:
            joined[-1] = (joined[-1][0], above)
        else:
            joined.append((below, above))
        chain = single
    return joined


def _refine(
    boundaries: _Boundaries, below: int, above: int, crossing: int, max_block: int
) -> list[int]:
    """Return nested boundaries from ``below`` to ``above`` with no block larger than allowed."""
    if boundaries.fits(below, above, max_block):
        return [below, above]
    candidates = {mask: boundaries.crossing(mask) for mask in boundaries.between(below, above)}
    crossing = min((c for c in candidates.values() if c >= crossing), default=_NARROW + 1)
    if crossing > _NARROW:
        return [below, *boundaries.levels(below, above, max_block), above]
    allowed = [mask for mask, count in candidates.items() if count <= crossing]
    chain = _cheapest_chain([below, *allowed, above], max_block)
    cuts = [below]
    for low, high in itertools.pairwise(chain):
        cuts += _refine(boundaries, low, high, crossing + 1, max_block)[1:]
    return cuts


def _cheapest_chain(nested: list[int], price: int) -> list[int]:
    """Return the chain of sets with the least sum of squared steps plus a price for each step."""
    best: list[tuple[int, int]] = [(0, -1)]
    for i in range(1, len(nested)):
        options = [
            (best[j][0] + (nested[i] & ~nested[j]).bit_count() ** 2 + price, j)
            for j in range(i)
            if not nested[j] & ~nested[i]
        ]
        best.append(min(options))
    chain, at = [nested[-1]], best[-1][1]
    while at >= 0:
        chain.append(nested[at])
        at = best[at][1]
    return chain[::-1]
