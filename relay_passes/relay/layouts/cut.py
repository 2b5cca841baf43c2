"""Cut the altered whole into its units again, with one layout for each tensor between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tvm import relay

from relay_passes.dialect import DialectError
from relay_passes.relay.expressions import children, constant_value, post_order, substitute
from relay_passes.relay.kernels import RelayUnitFunction
from relay_passes.relay.layouts.transforms import (
    Border,
    Transform,
    transform_of,
    transformed,
    type_after,
)
from relay_passes.relay.layouts.whole import Whole, place_of


class Cut:
    """The units cut out of a function that passes have rewritten.

    ``units`` are the old units, ``whole`` the function they were put together to, and ``main`` that
    function after the passes; it has the inputs of the whole and returns a tuple of ``results``.
    """

    def __init__(
        self,
        units: Sequence[RelayUnitFunction],
        whole: Whole,
        main: relay.Function,
        inputs: Mapping[int, Border],
        results: Sequence[int],
    ) -> None:
        self._old = units
        self._owner = whole.owner
        self._maker = {t: number for number, unit in enumerate(units) for t in unit.outputs}
        self._tensor = {place_of(whole.value[t]): t for t in self._maker}
        self._tensor |= {place_of(p): t for p, t in zip(main.params, inputs, strict=True)}
        #: The numbered calls of each unit, in order.
        self._calls: list[list[Any]] = [[] for _ in units]
        #: The expression of each tensor, as its operator makes it.
        self._raw: dict[int, Any] = {}
        order = post_order(main)
        for expression in order:
            place = place_of(expression)
            if place in self._tensor:
                self._raw[self._tensor[place]] = expression
            if isinstance(expression, relay.Call) and place is not None:
                self._calls[self._owner[place[0]]].append(expression)
        self.borders = dict(inputs) | self._borders(
            dict(zip(results, main.body.fields, strict=True))
        )

    def units(self) -> list[RelayUnitFunction]:
        """Return the units anew, with their inputs and outputs in the layouts of the borders."""
        return [self._unit(number) for number in range(len(self._old))]

    def _borders(self, heads: Mapping[int, Any]) -> dict[int, Border]:
        """Return each tensor's layout between units: a result's own, or else the most read one."""
        uses: dict[int, Counter[Transform]] = {}
        for number, calls in enumerate(self._calls):
            for child in (child for call in calls for child in children(call)):
                for tensor, how in self._reads(child, number):
                    uses.setdefault(tensor, Counter())[how] += 1
        borders: dict[int, Border] = {}
        for tensor in self._maker:
            counts = uses.get(tensor, Counter[Transform]())
            as_made = counts.pop(None, 0)
            how, most = counts.most_common(1)[0] if counts else (None, 0)
            # If it is transformed once for most readers, the others have to transform it back.
            if as_made and most <= as_made + 1:
                how = None
            if tensor in heads:
                how = transform_of(heads[tensor])
            borders[tensor] = Border(type_after(self._raw[tensor].checked_type, how), how)
        return borders

    def _foreign(self, expression: Any, unit: int) -> tuple[int, Transform] | None:
        """Return the tensor and transform of an expression from outside the unit, or None."""
        how = transform_of(expression)
        tensor = self._tensor.get(place_of(children(expression)[0] if how else expression))
        if tensor is None or self._maker.get(tensor) == unit:
            return None
        return tensor, how

    def _reads(self, expression: Any, unit: int) -> Iterator[tuple[int, Transform]]:
        foreign = self._foreign(expression, unit)
        if foreign is not None:
            yield foreign
        elif place_of(expression) is None:
            for child in children(expression):
                yield from self._reads(child, unit)

    def _unit(self, number: int) -> RelayUnitFunction:
        old = self._old[number]
        data = {t: relay.Var(f"p{i}", self.borders[t].type) for i, t in enumerate(old.data)}
        constants: dict[Any, relay.Var] = {}
        rewritten: dict[Any, Any] = {}

        def new(expression: Any) -> Any:
            if expression not in rewritten:
                rewritten[expression] = emitted(expression)
            return rewritten[expression]

        def emitted(expression: Any) -> Any:
            foreign = self._foreign(expression, number)
            if foreign is not None:
                return self._as_read(data[foreign[0]], *foreign)
            if (value := constant_value(expression)) is not None and value.ndim:
                name = f"p{len(data) + len(constants)}"
                constants[expression] = relay.var(name, shape=value.shape, dtype=str(value.dtype))
                return constants[expression]
            place = place_of(expression)
            if place is not None and self._owner[place[0]] != number:
                raise DialectError(f"the unit {old.name!r} reads what another one does not return")
            same = substitute(expression, new)
            if place is None or not isinstance(same, relay.Call):
                return same
            return relay.Call(same.op, same.args, same.attrs, same.type_args)

        for call in self._calls[number]:
            new(call)
        outputs = [transformed(new(self._raw[t]), self.borders[t].transform) for t in old.outputs]
        body = outputs[0] if len(outputs) == 1 else relay.Tuple(outputs)
        function = relay.Function([*data.values(), *constants.values()], body)
        return replace(old, function=function, constants=tuple(constants))

    def _as_read(self, parameter: relay.Var, tensor: int, how: Transform) -> Any:
        """Return a tensor of another unit, transformed from its layout at the border as wanted."""
        # Inputs are parameters of the whole, which itself transforms them back.
        crossing = self.borders[tensor].transform if tensor in self._maker else None
        if crossing == how:
            return parameter
        if crossing is None:
            return transformed(parameter, how)
        return transformed(parameter, (crossing[1], how[1] if how else crossing[0]))
