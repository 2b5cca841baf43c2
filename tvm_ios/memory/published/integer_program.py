"""The integer program of "Memory-aware Scheduling for Complex Wired Networks" (section IV-A).

Variables, for node u and step t: x = u runs at t; y = buffer b is stored when step t begins. One
node a step, each once; inputs of a node are stored; a stored buffer was stored or written one step
before; minimise the peak. Pruned by topology: a node runs after its ancestors and before its
descendants, and a buffer is stored only between.

A node of several operators has several footprints while it runs, and the peak bounds each of them.
They depend on the nodes that have run before (is a shared input freed?): variables z say which
bytes are saved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.buffers import TensorBuffer
from tvm_ios.memory.fused_graph import FusedGraph
from tvm_ios.memory.problem import is_live

#: Coefficients by variable, and the upper bound of their sum.
Row = tuple[dict[int, int], int]


@dataclass
class IntegerProgram:
    """An integer program that minimises variable 0, the peak; all others are 0 or 1."""

    #: Bytes of one unit of the peak.
    unit: int
    #: Bounds of the peak, in units.
    lowest: int
    highest: int
    #: ``(coefficients by variable, bound)``: the sum is at most the bound.
    rows: list[Row] = field(default_factory=list[Row])
    #: Sets of variables of which exactly one is 1.
    exactly_one: list[list[int]] = field(default_factory=list[list[int]])
    #: The variable of each node and step.
    x: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    #: Number of variables.
    variables: int = 1

    def new(self) -> int:
        """Add a variable and return its number."""
        self.variables += 1
        return self.variables - 1

    def at_most(self, bound: int, *terms: tuple[int, list[int]]) -> None:
        """Add a row: the sum of ``(coefficient, variables)`` terms is at most the bound."""
        row: dict[int, int] = {}
        for coefficient, variables in terms:
            for variable in variables:
                row[variable] = row.get(variable, 0) + coefficient
        self.rows.append((row, bound))


def integer_program(
    graph: FusedGraph, low: int, high: int, bound: int, peak: int, pruning: bool = True
) -> IntegerProgram:
    """Return the integer program that orders the nodes between two states.

    ``bound`` and ``peak`` limit the peak in bytes from below and above. Without ``pruning`` each
    node has a variable in every step (constraints 7 to 10 of the paper are left out).
    """
    return _Writer(graph, low, high, pruning).write(bound, peak)


@dataclass(frozen=True, slots=True)
class _Saving:
    """Bytes that a node needs less once each of some node sets has a member that has run."""

    nbytes: int
    needs: tuple[int, ...]
    #: Savings with the same key exclude each other: only one counts.
    key: int


class _Writer:
    """Builder of an integer program."""

    def __init__(self, graph: FusedGraph, low: int, high: int, pruning: bool) -> None:
        self.graph, self.low, self.within = graph, low, high & ~low
        self.nodes = list(bits(self.within))
        self.steps = range(len(self.nodes))
        #: The first and the last step of each node.
        before, after = (
            {u: (sets[u] & self.within).bit_count() if pruning else 0 for u in self.nodes}
            for sets in (graph.ancestors, graph.descendants)
        )
        self.first = before
        self.last = {u: len(self.nodes) - 1 - after[u] for u in self.nodes}

    def write(self, bound: int, peak: int) -> IntegerProgram:
        levels = {u: list(self._levels(u)) for u in self.nodes}
        sizes = [b.nbytes for b in self.graph.buffers]
        needs = [need for u in self.nodes for need, _ in levels[u]]
        saved = [s.nbytes for u in self.nodes for _, savings in levels[u] for s in savings]
        unit = max(1, math.gcd(*sizes, *needs, *saved))
        program = IntegerProgram(unit, -(-bound // unit), -(-peak // unit))
        self.program = program
        for u in self.nodes:
            for t in range(self.first[u], self.last[u] + 1):
                program.x[u, t] = program.new()
            program.exactly_one.append(self._x(u, self.first[u], self.last[u]))
        for t in self.steps:
            program.exactly_one.append([program.x[u, t] for u in self.nodes if (u, t) in program.x])
        stored: list[list[tuple[int, list[int]]]] = [[] for _ in self.steps]
        constant = 0
        for buffer in self.graph.buffers:
            constant += self._store(buffer, stored)
        self._precede()
        for t in self.steps:
            running = [u for u in self.nodes if (u, t) in program.x]
            saves = {u: self._saves(u, t, [f for _, f in levels[u]]) for u in running}
            for level in range(max(len(levels[u]) for u in running)):
                terms = list(stored[t])
                for u in running:
                    at = min(level, len(levels[u]) - 1)
                    terms.append((levels[u][at][0] // unit, [program.x[u, t]]))
                    terms += saves[u][at]
                program.at_most(-constant // unit, (-1, [0]), *terms)
        return program

    def _x(self, u: int, begin: int, end: int) -> list[int]:
        """Return the variables of a node in the steps from ``begin`` to ``end``, both included."""
        steps = range(max(begin, self.first[u]), min(end, self.last[u]) + 1)
        return [self.program.x[u, t] for t in steps]

    def _store(self, buffer: TensorBuffer, stored: list[list[tuple[int, list[int]]]]) -> int:
        """Add the variables and rows of a buffer's storage; return its bytes if always stored."""
        program = self.program
        writers = list(bits(buffer.writers & self.within))
        readers = list(bits(buffer.users & self.within))
        at_start = is_live(buffer, self.low)
        stays = buffer.at_end or bool(buffer.users & ~(self.low | self.within))
        if (at_start and stays) or not readers:
            return buffer.nbytes if at_start else 0
        size = buffer.nbytes // program.unit
        begin = 0 if at_start else 1 + min(self.first[w] for w in writers)
        end = len(self.nodes) - 1 if stays else max(self.last[u] for u in readers)
        if stays and len(writers) == 1:
            # Once written it stays: no variable is needed.
            for t in range(begin, end + 1):
                stored[t].append((size, self._x(writers[0], 0, t - 1)))
            return 0
        y = {t: program.new() for t in range(begin, end + 1)}
        for t, variable in y.items():
            stored[t].append((size, [variable]))
            written = [] if t == 0 else [x for w in writers for x in self._x(w, t - 1, t - 1)]
            if t > begin:
                program.at_most(0, (1, [variable]), (-1, [y[t - 1], *written]))
            elif not at_start:
                program.at_most(0, (1, [variable]), (-1, written))
        shared = len(writers) + at_start > 1
        for u in readers:
            if writers == [u]:
                continue
            for t in range(self.first[u], self.last[u] + 1):
                if not shared:
                    # Where nothing can be stored yet nothing can be read; topology says it too.
                    kept = [y[t]] if t in y else []
                    program.at_most(0, (1, [program.x[u, t]]), (-1, kept))
        if shared or stays:
            # From the first that writes to the last that uses it.
            for t, variable in y.items():
                for w in writers or [None]:
                    begun = [] if w is None else self._x(w, 0, t - 1)
                    for u in [None] if stays else readers:
                        done = [] if u is None else self._x(u, 0, t - 1)
                        program.at_most(0, (1, begun), (-1, [*done, variable]))
                if at_start:
                    for u in readers:
                        program.at_most(-1, (-1, [*self._x(u, 0, t - 1), variable]))
        return 0

    def _precede(self) -> None:
        """Order nodes after their predecessors by rows, where no single-writer buffer does."""
        single = {
            (b.writers, u)
            for b in self.graph.buffers
            if b.writers.bit_count() == 1 and not b.at_start and not self._stays(b)
            for u in bits(b.users)
        }
        for u in self.nodes:
            for before in bits(self.graph.predecessors[u] & self.within):
                if (1 << before, u) in single:
                    continue
                for t in range(self.first[u], self.last[u] + 1):
                    self.program.at_most(0, (1, self._x(u, 0, t)), (-1, self._x(before, 0, t - 1)))

    def _stays(self, buffer: TensorBuffer) -> bool:
        return buffer.at_end or bool(buffer.users & ~(self.low | self.within))

    def _saves(
        self, u: int, t: int, levels: list[tuple[_Saving, ...]]
    ) -> list[list[tuple[int, list[int]]]]:
        """Add the variables of a node's savings in a step; return the terms for each footprint."""
        program = self.program
        variables: dict[_Saving, int] = {}
        for saving in dict.fromkeys(s for level in levels for s in level):
            variables[saving] = program.new()
            program.at_most(0, (1, [variables[saving]]), (-1, [program.x[u, t]]))
            for need in saving.needs:
                if not need & self.low:
                    ran = [x for n in bits(need & self.within) for x in self._x(n, 0, t - 1)]
                    program.at_most(0, (1, [variables[saving]]), (-1, ran))
        for key in {saving.key for saving in variables}:
            alike = [variable for saving, variable in variables.items() if saving.key == key]
            if len(alike) > 1:
                program.at_most(1, (1, alike))
        return [[(-s.nbytes // program.unit, [variables[s]]) for s in level] for level in levels]

    def _levels(self, u: int) -> Iterator[tuple[int, tuple[_Saving, ...]]]:
        """Yield each footprint of a node, above the live bytes before, that may be its largest.

        Each is the bytes when no parallel node has run, and the savings when some have.
        """
        savings = self._savings(u)
        levels = [
            (need, tuple(saving for places, saving in savings if k in places))
            for k, (_, need) in enumerate(self.graph.inner_steps(0, u))
        ]
        least = [need - sum(s.nbytes for s in saved) for need, saved in levels]
        largest = max(least)
        first = least.index(largest)
        for k, (need, saved) in enumerate(levels):
            if need > largest or (need == largest and k <= first):
                yield need, saved

    def _savings(self, u: int) -> list[tuple[range, _Saving]]:
        """Return a node's savings from parallel nodes that have run, with the places they hold."""
        graph, problem = self.graph, self.graph.problem
        sequence, context = graph.sequences[u], graph.contexts[u]
        place = {operator: k for k, operator in enumerate(sequence)}
        savings: list[tuple[range, _Saving]] = []
        #: For each buffer that parallel nodes can free: its last place in the node; those nodes.
        freed: dict[int, tuple[int, tuple[int, ...]]] = {}
        for b in sorted({b for operator in sequence for b in problem.touched[operator]}):
            buffer = problem.memory.buffers[b]
            used = [place[operator] for operator in bits(buffer.users & graph.members[u])]
            writers, users = graph.nodes_of((buffer.writers,)), graph.nodes_of((buffer.users,))
            if not buffer.at_start and not writers & graph.ancestors[u] and writers & context:
                saving = _Saving(buffer.nbytes, (writers & context,), -1 - b)
                savings.append((range(min(used), len(sequence)), saving))
            others = users & ~(graph.ancestors[u] | 1 << u)
            if buffer.at_end or others & ~context:
                continue
            freed[b] = max(used), tuple(1 << n for n in bits(others))
            if others:
                saving = _Saving(buffer.nbytes, freed[b][1], -1 - b)
                savings.append((range(max(used) + 1, len(sequence)), saving))
        for k, operator in enumerate(sequence):
            over = [b for b in problem.memory.takes[operator] if b in freed and freed[b][0] <= k]
            # An operator that can always overwrite one of them saves these bytes already.
            for b in over if all(freed[b][1] for b in over) else ():
                saving = _Saving(problem.memory.buffers[b].nbytes, freed[b][1], operator)
                savings.append((range(k, k + 1), saving))
        return savings
