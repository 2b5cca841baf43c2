"""Write units as Primitive function literals, one per kernel, and ``main`` as their calls."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relay

from relay_passes.relay.calls import emit_calls
from relay_passes.relay.expressions import constant, post_order, substitute
from relay_passes.relay.extract import Extraction
from relay_passes.relay.kernels import RelayUnitFunction, kernel_calls
from relay_passes.relay.layouts.choice import LayoutChoice, alter_layouts
from relay_passes.relay.layouts.transforms import Border, Transform
from relay_passes.relay.merge import merged_function
from relay_passes.unit_outliner import UnitOutliner, identifier
from runtime_ext.relay.module_copies import with_main
from runtime_ext.relay.scheduled_main import let, marked
from tvm_ios.files.array_files import Array
from tvm_ios.graph.merge_rule import MergePlan
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.schedule import Schedule


class Outliner(UnitOutliner[RelayUnitFunction]):
    """An outliner of units as Relay functions.

    ``layouts`` chooses the kernels' layouts when a schedule is applied; None keeps the model's.
    """

    layouts: LayoutChoice | None = None

    def in_layouts(self, layouts: LayoutChoice) -> Outliner:
        """Return an outliner of the same units that writes them in chosen layouts."""
        outliner = copy.copy(self)
        outliner.layouts = layouts
        return outliner

    def altered(
        self, called: Sequence[RelayUnitFunction]
    ) -> tuple[list[RelayUnitFunction], dict[int, Border]]:
        """Return the functions that a schedule calls, in the layouts chosen for them, and borders.

        ``called`` has them in the order of the schedule.
        """
        if self.layouts is None or not self.layouts.matters:
            return list(called), {}
        graph = self.extraction.graph
        shapes = {t: graph.tensors[self._origin[t]] for t in self.units.inputs}
        inputs = {t: Border(relay.TensorType(k.shape, k.dtype)) for t, k in shapes.items()}
        produced = {t for unit in called for t in unit.outputs}
        results: dict[int, Transform] = {t: None for t in self.units.outputs if t in produced}
        return alter_layouts(called, inputs, results, self.layouts)

    def of(self, extraction: Extraction, units: OpGraph) -> Outliner:
        """Return an outliner that makes the same choices for another module."""
        outliner = Outliner(extraction, units)
        outliner.layouts = self.layouts
        return outliner

    def _array(self, value: Any) -> Array:
        return value.data.numpy()

    def _constants(self, kernel: Array, bias: Array) -> tuple[Any, Any]:
        return constant(kernel), constant(bias[0])

    def _merge(
        self,
        plan: MergePlan,
        data: int,
        weights: tuple[Any, Any],
        outputs: tuple[int, ...],
        name: str,
    ) -> RelayUnitFunction:
        function = merged_function(plan, self._type(data), weights)
        return RelayUnitFunction(function, (data,), weights, outputs, name)

    def _type(self, tensor: int) -> relay.TensorType:
        described = self.extraction.graph.tensors[self._origin[tensor]]
        value = self.value(tensor)
        # A bias and a dense weight have other shapes in the graph than in the IR.
        return (
            value.checked_type
            if described.constant
            else relay.TensorType(described.shape, described.dtype)
        )

    def _outline(self, *units: int) -> RelayUnitFunction:
        (unit,) = units
        op = self.units.operators[unit]
        data, constants = self._interface(unit)
        read = (*data, *constants)
        parameters = [relay.Var(f"p{i}", self._type(t)) for i, t in enumerate(read)]
        values = dict(zip((self._origin[t] for t in read), parameters, strict=True))
        for member in op.members:
            emit_calls(self.extraction, member, values)
        results = [values[self._origin[t]] for t in op.outputs]
        body = results[0] if len(results) == 1 else relay.Tuple(results)
        weights = tuple(self.value(t) for t in constants)
        function = relay.Function(parameters, body)
        return RelayUnitFunction(function, data, weights, op.outputs, op.name)


def outline(module: tvm.IRModule, outliner: Outliner, schedule: Schedule) -> tvm.IRModule:
    """Return the module of :func:`outlined`."""
    return outlined(module, outliner, schedule)[0]


def outlined(
    module: tvm.IRModule, outliner: Outliner, schedule: Schedule
) -> tuple[tvm.IRModule, list[tuple[str, int, int]]]:
    """Return the module that calls units' kernels in schedule order, and each call's place.

    The place is the unit, stage and group. Calls are bound by ``let``, so that the text shows order
    and names, and the graph executor keeps the order. Differences between equal units are
    attributes of their calls, not of the functions, so TVM compiles each kernel once. Raise
    ScheduleError if units cannot be merged.
    """
    old = module["main"]
    units = outliner.units
    value: dict[int, Any] = dict(zip(units.inputs, old.params, strict=True))
    bindings: list[tuple[relay.Var, relay.Call]] = []
    places: list[tuple[str, int, int]] = []
    calls = outliner.calls(schedule)
    altered, _ = outliner.altered([call.function for call in calls])
    for unit, call in zip(altered, calls, strict=True):
        arguments = [*(value[t] for t in unit.data), *unit.constants]
        results = bind_kernels(unit, arguments, bindings)
        value.update(zip(unit.outputs, results, strict=True))
        place = (unit.name, call.stage, call.group)
        first, places = len(places), places + [place] * (len(bindings) - len(places))
        bindings[first:] = [(variable, marked(call, place)) for variable, call in bindings[first:]]
    results = [
        value[tensor] if tensor in value else outliner.value(tensor) for tensor in units.outputs
    ]
    body = relay.Tuple(results) if isinstance(old.body, relay.Tuple) else results[0]
    main = relay.Function(old.params, let(bindings, body), None, old.type_params, old.attrs)
    return with_main(module, main), places


def bind_kernels(
    unit: RelayUnitFunction, arguments: Sequence[Any], bindings: list[tuple[relay.Var, relay.Call]]
) -> list[Any]:
    """Append the calls of a unit's kernels to the bindings; return the values of its outputs."""
    function = unit.kernels
    new: dict[Any, Any] = dict(zip(function.params, arguments, strict=True))
    count = len(kernel_calls(function))
    first = len(bindings)
    for expression in post_order(function):
        if expression in new:
            continue
        new[expression] = substitute(expression, new.__getitem__)
        if isinstance(expression, relay.Call):
            number = f"_{len(bindings) - first}" if count > 1 else ""
            variable = relay.Var(identifier(unit.name) + number)
            bindings.append((variable, new[expression]))
            new[expression] = variable
    result = new[function.body]
    if len(unit.outputs) == 1:
        return [result]
    if isinstance(result, relay.Tuple):
        return list(result.fields)
    return [relay.TupleGetItem(result, place) for place in range(len(unit.outputs))]
