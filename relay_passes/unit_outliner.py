"""The base class of both dialects' outliners: it builds each unit's function once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from tvm_ios.files.array_files import Array
from tvm_ios.graph.merge_rule import MergePlan, plan_merge
from tvm_ios.graph.merged_weights import merged_weights
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import Strategy


@dataclass(frozen=True)
class UnitFunction:
    """A unit, or merged units, as a function of a dialect."""

    #: The function: its first parameters are data, the others weights.
    function: Any
    #: Tensors of the graph of units that are passed for the data parameters, in order.
    data: tuple[int, ...]
    #: The dialect's constants that are passed for the other parameters.
    constants: tuple[Any, ...]
    #: Tensors that it returns, a tuple if there is more than one.
    outputs: tuple[int, ...]
    #: The name of the unit, or those of merged units joined by ``+``.
    name: str


FunctionT = TypeVar("FunctionT", bound=UnitFunction)


@dataclass(frozen=True)
class UnitCall(Generic[FunctionT]):
    """A call that ``main`` makes for a schedule."""

    #: The unit, or the units that are merged or chained.
    units: tuple[int, ...]
    #: The function that computes them.
    function: FunctionT

    stage: int
    group: int
    #: Name of the rKernel, if the schedule names one.
    kernel: str | None


#: Longest list of operators in the name of a function: a unit may have dozens.
_LONGEST_NAME = 60


def identifier(name: str) -> str:
    """Return a name with all characters replaced that an identifier of a module cannot have."""
    return re.sub(r"\W|^(?=\d)", "_", name)


class UnitOutliner(Generic[FunctionT]):
    """A builder of the functions of units and of merged units, each of which is built once.

    ``units`` is the graph formed from the extraction; its tensors are those of the extraction, by
    name.
    """

    def __init__(self, extraction: Any, units: OpGraph) -> None:
        self.extraction = extraction
        self.units = units
        # Units are formed from the extracted graph and keep the names of its tensors.
        number = {tensor.name: i for i, tensor in enumerate(extraction.graph.tensors)}
        self._origin = tuple(number[tensor.name] for tensor in units.tensors)
        self._functions: dict[tuple[int, ...], FunctionT] = {}

    def of(self, extraction: Any, units: OpGraph) -> Self:
        """Return an outliner that makes the same choices for another module."""
        return type(self)(extraction, units)

    def value(self, tensor: int) -> Any:
        """Return the expression of a tensor of the graph of units."""
        return self.extraction.values[self._origin[tensor]]

    def unit(self, unit: int) -> FunctionT:
        """Return the function of one unit."""
        if (unit,) not in self._functions:
            self._functions[(unit,)] = self._outline(unit)
        return self._functions[(unit,)]

    def merged(self, members: Sequence[int]) -> FunctionT:
        """Return one function for units that :func:`tvm_ios.graph.merge_rule.plan_merge` can merge.

        Raise ScheduleError if they cannot be merged.
        """
        key = tuple(sorted(members))
        if key not in self._functions:
            plan, operators = self.merge_plan(key), [self.units.operators[unit] for unit in key]
            outputs = tuple(op.outputs[0] for op in operators)
            name = "+".join(op.name for op in operators)
            weights = self.stacked_weights(plan)
            self._functions[key] = self._merge(plan, operators[0].inputs[0], weights, outputs, name)
        return self._functions[key]

    def chained(self, chain: Sequence[int]) -> FunctionT:
        """Return one function for a chain: units that alone read the result of the one before."""
        key = tuple(chain)
        if key not in self._functions:
            self._functions[key] = self._outline(*key)
        return self._functions[key]

    def piece(self, units: Sequence[int]) -> FunctionT:
        """Return the function of one unit, of a chain, or of merged units."""
        if len(units) == 1:
            return self.unit(units[0])
        return self.chained(units) if self._is_chain(units) else self.merged(units)

    def calls(self, schedule: Schedule) -> list[UnitCall[FunctionT]]:
        """Return the calls of ``main`` for a schedule, in order.

        Raise ScheduleError if units cannot be merged.
        """
        chain_of = {chain[0]: chain for chain in schedule.chains}
        within = {unit for chain in schedule.chains for unit in chain[1:]}
        calls: list[UnitCall[FunctionT]] = []
        for number, stage in enumerate(schedule.stages):
            if stage.strategy is Strategy.MERGE:
                function, kernel = self.merged(stage.units), schedule.kernels.get(stage.units[0])
                calls.append(UnitCall(stage.units, function, number, 0, kernel))
                continue
            group_of = {unit: group for group, units in enumerate(stage.groups) for unit in units}
            for unit in stage.units:
                if unit in within:
                    continue
                units = chain_of.get(unit, (unit,))
                kernel = schedule.kernels.get(unit) if len(units) == 1 else None
                calls.append(UnitCall(units, self.piece(units), number, group_of[unit], kernel))
        return calls

    def operators(self, units: Sequence[int]) -> str:
        """Return the operator kinds of some units as part of a name: ``conv2d_bias_add_relu``."""
        if len(units) > 1 and not self._is_chain(units):
            return f"merged_{len(units)}_conv2d"
        kinds = "_".join(self.units.operators[unit].kind for unit in units)
        return identifier(kinds)[:_LONGEST_NAME].rstrip("_")

    def merge_plan(self, members: Sequence[int]) -> MergePlan:
        """Return the plan by which units are merged, or raise ScheduleError if there is none."""
        plan = plan_merge(self.units, members)
        if plan is None:
            names = ", ".join(self.units.operators[unit].name for unit in sorted(members))
            raise ScheduleError(f"the units {names} cannot be merged into one convolution")
        return plan

    def stacked_weights(self, plan: MergePlan) -> tuple[Any, Any]:
        """Return the kernel and the bias of the merged convolution as constants of the dialect."""
        weights = [[self._array(c) for c in self.unit(unit).constants] for unit in plan.units]
        return self._constants(*merged_weights(plan, weights))

    def _interface(self, *units: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the data and the constants that are parameters of a unit, or of a chain."""
        operators = [self.units.operators[unit] for unit in units]
        made = {tensor for op in operators for tensor in op.outputs}
        inputs = dict.fromkeys(t for op in operators for t in op.inputs if t not in made)
        read = [t for t in inputs if not self._is_scalar(t)]
        constant = [self.units.tensors[t].constant for t in read]
        return (
            tuple(t for t, fixed in zip(read, constant, strict=True) if not fixed),
            tuple(t for t, fixed in zip(read, constant, strict=True) if fixed),
        )

    def _is_chain(self, units: Sequence[int]) -> bool:
        """Return whether units read from each other, as merged ones never do."""
        return bool(self.units.ancestors[units[-1]] >> units[0] & 1)

    def _is_scalar(self, tensor: int) -> bool:
        return self.units.tensors[tensor].constant and len(self._type(tensor).shape) == 0

    def _type(self, tensor: int) -> Any:
        """Return the dialect's type of a parameter."""
        raise NotImplementedError

    def _array(self, value: Any) -> Array:
        """Return the value of a constant of the dialect."""
        raise NotImplementedError

    def _constants(self, kernel: Array, bias: Array) -> tuple[Any, Any]:
        """Return a merged kernel and bias as constants of the dialect."""
        raise NotImplementedError

    def _outline(self, *units: int) -> FunctionT:
        """Return the function of a unit, or of several that are a chain."""
        raise NotImplementedError

    def _merge(
        self,
        plan: MergePlan,
        data: int,
        weights: tuple[Any, Any],
        outputs: tuple[int, ...],
        name: str,
    ) -> FunctionT:
        raise NotImplementedError
