"""Partitioned Boolean quadratic problems: a choice for each variable, at the least total cost.

Tables hold the costs of choices, alone and in pairs. Variables are eliminated one by one: the
tables of a variable become one table of its neighbours. With one and two neighbours these are the
reductions RI and RII of Scholz and Eckstein ("Register Allocation for Irregular Architectures",
LCTES 2002); with any number it is exact too, and fast for graphs of small treewidth, such as those
of the tensors of networks. Where tables would become too large a variable is set as their reduction
RN does, and the result is no longer proven optimal.
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

#: The most entries of a table.
LARGEST_TABLE = 1 << 22


@dataclass(frozen=True)
class ChoiceProblem:
    """The costs of choices, alone and in pairs; infinity forbids them.

    ``alone`` holds for each variable the cost of each choice. ``pairs`` holds for two variables the
    costs of their choices together, with the axes in this order.
    """

    alone: Sequence[Costs]
    pairs: Mapping[tuple[int, int], Costs]

    def cost(self, choices: Sequence[int]) -> float:
        """Return the total cost of choices, one for each variable."""
        alone = sum(float(costs[choices[v]]) for v, costs in enumerate(self.alone))
        return alone + sum(float(c[choices[a], choices[b]]) for (a, b), c in self.pairs.items())


@dataclass(frozen=True, slots=True)
class Choices:
    """A solution: the choice of each variable, and the total cost.

    The cost is infinite if no choices are allowed, or no allowed ones were found. ``proven`` says
    whether no others cost less.
    """

    values: tuple[int, ...]
    cost: float
    proven: bool


def cheapest(problem: ChoiceProblem) -> Choices:
    """Return the choices with the least total cost; of equal ones always the same.

    Each variable must have at least one choice.
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
    """The costs of choices of some variables together, one axis for each."""

    variables: tuple[int, ...]
    costs: Costs

    def without_last(self) -> _Table:
        """Return the table with the best choice of the last variable."""
        return _Table(self.variables[:-1], self.costs.min(axis=-1))

    def least(self, variable: int) -> Costs:
        """Return the least cost for each choice of one variable."""
        axes = tuple(axis for axis, v in enumerate(self.variables) if v != variable)
        return self.costs.min(axis=axes)

    def at(self, variable: int, choice: int) -> _Table:
        """Return the table with one variable set to a choice."""
        axis = self.variables.index(variable)
        others = (*self.variables[:axis], *self.variables[axis + 1 :])
        return _Table(others, np.asarray(self.costs.take(choice, axis=axis)))


def _with_best_neighbours(
    variable: int, involved: Sequence[_Table], others: Sequence[_Table], sizes: Sequence[int]
) -> Costs:
    """Return the cost of each choice of a variable if each neighbour had only this one."""
    alone = [table for table in others if len(table.variables) == 1]
    total = np.zeros(sizes[variable])
    for table in involved:
        near = [one for one in alone if one.variables[0] in table.variables]
        total += _sum([table, *near], table.variables, sizes).least(variable)
    return total


def _sum(tables: Iterable[_Table], variables: tuple[int, ...], sizes: Sequence[int]) -> _Table:
    """Return the sum of tables of some of the variables, as a table of all of them."""

    def wide(table: _Table) -> Costs:
        order = [table.variables.index(v) for v in variables if v in table.variables]
        shape = [sizes[v] if v in table.variables else 1 for v in variables]
        return table.costs.transpose(order).reshape(shape)

    zeros = np.zeros([sizes[v] for v in variables])
    return _Table(variables, reduce(np.add, map(wide, tables), zeros))
