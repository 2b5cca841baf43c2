"""Partitioned Boolean quadratic problems: a choice for each variable, at the least cost in all.

What a choice costs, alone and beside another one, is given by tables. Variables are eliminated one
by one: the tables of a variable become one table of its neighbours. With one and two neighbours
these are the reductions RI and RII of Scholz and Eckstein ("Register Allocation for Irregular
Architectures", LCTES 2002); with any number it is exact too, and fast where variables hang together
as the tensors of a network do, in a graph of small treewidth. Where tables would become too large
a variable is set as their reduction RN does, and the result is not proven any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import permutations
from math import prod

import numpy as np
import numpy.typing as npt

Costs = npt.NDArray[np.float64]

#: Entries of the largest table that is made.
LARGEST_TABLE = 1 << 22


@dataclass(frozen=True)
class ChoiceProblem:
    """What choices cost; infinity forbids them.

    Attributes
    ----------
    alone
        For each variable what each of its choices costs.
    pairs
        For two variables what their choices cost together; the axes are in this order.
    """

    alone: Sequence[Costs]
    pairs: Mapping[tuple[int, int], Costs]

    def cost(self, choices: Sequence[int]) -> float:
        """What these choices cost, one for each variable."""
        alone = sum(float(costs[choices[v]]) for v, costs in enumerate(self.alone))
        return alone + sum(float(c[choices[a], choices[b]]) for (a, b), c in self.pairs.items())


@dataclass(frozen=True, slots=True)
class Choices:
    """A solution.

    Attributes
    ----------
    values
        The choice of each variable.
    cost
        The cost of all; infinite if none is allowed, or none that is allowed was found.
    proven
        Whether no others cost less.
    """

    values: tuple[int, ...]
    cost: float
    proven: bool


def cheapest(problem: ChoiceProblem) -> Choices:
    """The choices that cost the least in all; of equal ones always the same.

    Parameters
    ----------
    problem
        A problem with at least one choice for each variable.
    """
    sizes = [len(costs) for costs in problem.alone]
    tables = [_Table((v,), costs) for v, costs in enumerate(problem.alone)]
    tables += [_Table(pair, costs) for pair, costs in problem.pairs.items()]
    beside: list[set[int]] = [set() for _ in sizes]
    for a, b in problem.pairs:
        beside[a].add(b)
        beside[b].add(a)
    left, proven = set(range(len(sizes))), True
    decided: list[_Table] = []
    while left:

        def entries(v: int) -> int:
            return prod(sizes[n] for n in (v, *beside[v]))

        variable = min(left, key=lambda v: (entries(v), v))
        if exact := entries(variable) <= LARGEST_TABLE:
            for a, b in permutations(beside[variable], 2):
                beside[a].add(b)
        else:
            variable = max(left, key=lambda v: (len(beside[v]), -v))
            proven = False
        left.remove(variable)
        for other in beside[variable]:
            beside[other].remove(variable)
        involved = [table for table in tables if variable in table.variables]
        tables = [table for table in tables if variable not in table.variables]
        if exact:
            decided.append(_sum(involved, (*sorted(beside[variable]), variable), sizes))
            tables.append(decided[-1].without_last())
        else:
            alone = _with_best_neighbours(variable, involved, tables, sizes)
            decided.append(_Table((variable,), alone))
            tables += [table.at(variable, int(np.argmin(alone))) for table in involved]
    values = [0] * len(sizes)
    for table in reversed(decided):
        *others, variable = table.variables
        values[variable] = int(np.argmin(table.costs[tuple(values[v] for v in others)]))
    return Choices(tuple(values), problem.cost(values), proven)


@dataclass(frozen=True)
class _Table:
    """What choices of some variables cost together, an axis each."""

    variables: tuple[int, ...]
    costs: Costs

    def without_last(self) -> _Table:
        """The table with the best choice of the last variable."""
        return _Table(self.variables[:-1], self.costs.min(axis=-1))

    def least(self, variable: int) -> Costs:
        """The least for each choice of one variable."""
        axes = tuple(axis for axis, v in enumerate(self.variables) if v != variable)
        return self.costs.min(axis=axes)

    def at(self, variable: int, choice: int) -> _Table:
        """The table with one variable set."""
        axis = self.variables.index(variable)
        others = (*self.variables[:axis], *self.variables[axis + 1 :])
        return _Table(others, np.asarray(self.costs.take(choice, axis=axis)))


def _with_best_neighbours(
    variable: int, involved: Sequence[_Table], others: Sequence[_Table], sizes: Sequence[int]
) -> Costs:
    """What the choices of a variable cost if each neighbour had nothing else beside it."""
    alone = [table for table in others if len(table.variables) == 1]
    total = np.zeros(sizes[variable])
    for table in involved:
        near = [one for one in alone if one.variables[0] in table.variables]
        total += _sum([table, *near], table.variables, sizes).least(variable)
    return total


def _sum(tables: Iterable[_Table], variables: tuple[int, ...], sizes: Sequence[int]) -> _Table:
    """Tables of some of these variables as one of all of them."""

    def wide(table: _Table) -> Costs:
        order = [table.variables.index(v) for v in variables if v in table.variables]
        shape = [sizes[v] if v in table.variables else 1 for v in variables]
        return table.costs.transpose(order).reshape(shape)

    zeros = np.zeros([sizes[v] for v in variables])
    return _Table(variables, reduce(np.add, map(wide, tables), zeros))
