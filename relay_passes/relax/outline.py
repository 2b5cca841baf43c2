"""Units as private functions, and ``main`` as their calls in schedule order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from relay_passes.relax.bindings import Leaf, leaves, substitute
from relay_passes.relax.extract import Extraction
from relay_passes.relax.lrn import emit_lrn
from relay_passes.relax.merge import emit_merged
from runtime_ext.ir_form import GROUP, KERNEL, STAGE, UNIT
from tvm_ios.graph import OpGraph
from tvm_ios.merge_rule import plan_merge
from tvm_ios.schedule import Schedule, ScheduleError, Strategy


@dataclass(frozen=True)
class UnitFunction:
    """A unit, or merged units, as a Relax function.

    Attributes
    ----------
    function
        Private; its first ``num_input`` parameters are data, the others weights.
    data
        Tensors (numbers in the graph of units) of the data parameters.
    constants
        Relax constants of the other parameters.
    outputs
        Tensors that it returns, a tuple if there is more than one.
    name
        Of the unit, or of the merged units joined by ``+``.
    """

    function: relax.Function
    data: tuple[int, ...]
    constants: tuple[Any, ...]
    outputs: tuple[int, ...]
    name: str


class Outliner:
    """Makes the functions of units and of merged units, each once.

    Parameters
    ----------
    extraction
        Of the canonical module.
    units
        The graph of units formed from it; its tensors are those of the extraction, by name.
    """

    def __init__(self, extraction: Extraction, units: OpGraph) -> None:
        self.extraction = extraction
        self.units = units
        # Units are formed from the extracted graph and keep the names of its tensors.
        number = {tensor.name: i for i, tensor in enumerate(extraction.graph.tensors)}
        self._origin = tuple(number[tensor.name] for tensor in units.tensors)
        self._made: dict[tuple[int, ...], UnitFunction] = {}

    def leaf(self, tensor: int) -> Leaf:
        """The variable or constant behind a tensor of the graph of units."""
        return self.extraction.values[self._origin[tensor]]

    def unit(self, unit: int) -> UnitFunction:
        """The function of one unit."""
        if (unit,) not in self._made:
            self._made[(unit,)] = self._outline(unit)
        return self._made[(unit,)]

    def merged(self, members: Sequence[int]) -> UnitFunction:
        """One function for units that :func:`tvm_ios.merge_rule.plan_merge` can merge.

        Raises
        ------
        ScheduleError
            If they cannot be merged.
        """
        key = tuple(sorted(members))
        if key not in self._made:
            plan = plan_merge(self.units, key)
            if plan is None:
                names = ", ".join(self.units.operators[unit].name for unit in key)
                raise ScheduleError(f"the units {names} cannot be merged into one convolution")
            first = self.units.operators[key[0]]
            data = first.inputs[0]
            weights = [self._arrays(unit) for unit in key]
            function, constants = emit_merged(plan, self.leaf(data).ty, weights)
            outputs = tuple(self.units.operators[unit].outputs[0] for unit in key)
            name = "+".join(self.units.operators[unit].name for unit in key)
            self._made[key] = UnitFunction(function, (data,), constants, outputs, name)
        return self._made[key]

    def _arrays(self, unit: int) -> list[Any]:
        constants = self.unit(unit).constants
        return [constant.value.numpy() for constant in constants]

    def _outline(self, unit: int) -> UnitFunction:
        op = self.units.operators[unit]
        arguments = [t for t in op.inputs if not self._is_scalar(t)]
        data = tuple(t for t in arguments if not self.units.tensors[t].constant)
        constants = tuple(t for t in arguments if self.units.tensors[t].constant)
        parameters = [
            relax.Var(f"p{i}", self.leaf(t).ty) for i, t in enumerate((*data, *constants))
        ]
        made = dict(
            zip((*map(self._origin.__getitem__, (*data, *constants)),), parameters, strict=True)
        )
        builder = relax.BlockBuilder()
        attributes = {"num_input": len(data)}
        with builder.function("unit", parameters, attrs=attributes, private=True):
            with builder.dataflow():
                for member in op.members:
                    self._emit(builder, member, made)
                results = [made[self._origin[t]] for t in op.outputs]
                whole = results[0] if len(results) == 1 else relax.Tuple(results)
                result = builder.emit_output(whole)
            variable = builder.emit_func_output(result)
        function = builder.finalize()[variable]
        constant_leaves = tuple(self.leaf(t) for t in constants)
        return UnitFunction(function, data, constant_leaves, op.outputs, op.name)

    def _emit(self, builder: relax.BlockBuilder, member: int, made: dict[int, Any]) -> None:
        """Emit an operator; ``made`` maps the extraction's tensors to the builder's values."""
        operator = self.extraction.graph.operators[member]
        if operator.kind == "lrn":
            made[operator.outputs[0]] = emit_lrn(builder, made[operator.inputs[0]], operator.attrs)
            return
        inner: dict[Any, Any] = {}
        for binding in self.extraction.bindings[member]:
            replacement = dict(inner)
            for leaf in leaves(binding.value):
                number = self.extraction.number.get(leaf)
                if number in made:
                    replacement[leaf] = made[number]
            result = builder.emit(substitute(binding.value, replacement))
            inner[binding.var] = result
            if binding.var in self.extraction.number:
                made[self.extraction.number[binding.var]] = result

    def _is_scalar(self, tensor: int) -> bool:
        found = self.units.tensors[tensor]
        return found.constant and len(self.leaf(tensor).ty.shape) == 0


def outline(module: tvm.IRModule, outliner: Outliner, schedule: Schedule) -> tvm.IRModule:
    """The module with units as private functions, called by ``main`` in schedule order.

    Functions other than ``main`` stay as they are.

    Raises
    ------
    ScheduleError
        If units are to be merged that cannot be.
    """
    old = module["main"]
    units = outliner.units
    others = {v: f for v, f in module.functions_items() if v.name_hint != "main"}
    builder = relax.BlockBuilder(tvm.IRModule(others))
    parameters = [relax.Var(p.name, p.ty) for p in old.params]
    value: dict[int, Any] = dict(zip(units.inputs, parameters, strict=True))
    calls = [
        (position, number, made)
        for position, stage in enumerate(schedule.stages)
        for number, made in _functions(outliner, stage.strategy, stage.groups)
    ]
    kernels = {units.operators[unit].name: kernel for unit, kernel in schedule.kernels.items()}
    variables: list[Any] = []
    for position, number, made in calls:
        places = {UNIT: made.name, STAGE: position, GROUP: number}
        if made.name in kernels:
            places[KERNEL] = kernels[made.name]
        function = made.function.with_attrs(places)
        variables.append(builder.add_func(function, f"unit_{len(variables)}"))
    attributes = dict(old.attrs.items()) if old.attrs else None
    with builder.function("main", parameters, attrs=attributes):
        with builder.dataflow():
            for variable, (_, _, made) in zip(variables, calls, strict=True):
                arguments = [*(value[t] for t in made.data), *made.constants]
                result = builder.emit(relax.Call(variable, arguments))
                if len(made.outputs) == 1:
                    value[made.outputs[0]] = result
                    continue
                for field, tensor in enumerate(made.outputs):
                    value[tensor] = builder.emit(relax.TupleGetItem(result, field))
            results = [value.get(tensor, outliner.leaf(tensor)) for tensor in units.outputs]
            whole = results[0]
            if len(results) > 1 or isinstance(old.ret_ty, relax.TupleType):
                whole = relax.Tuple(results)
            result = builder.emit_output(whole)
        builder.emit_func_output(result)
    scheduled = builder.finalize()
    attributes = dict(module.attrs.items()) if module.attrs else {}
    return tvm.IRModule(dict(scheduled.functions_items()), attrs=attributes or None)


def _functions(
    outliner: Outliner, strategy: Strategy, groups: Sequence[Sequence[int]]
) -> list[tuple[int, UnitFunction]]:
    if strategy is Strategy.MERGE:
        return [(0, outliner.merged([group[0] for group in groups]))]
    return [(number, outliner.unit(unit)) for number, group in enumerate(groups) for unit in group]
