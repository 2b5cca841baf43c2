"""The whole cut again into its units, whose tensors have one layout each between them."""

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
    """Units of a rewritten whole.

    Parameters
    ----------
    units
        The units as they were.
    whole
        The function that they were put together to.
    main
        What passes made of this function: it returns a tuple of results.
    inputs
        The inputs of the whole.
    results
        Tensors that it returns.
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
        #: Each tensor as its operator makes it.
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
        """The units anew: each reads and returns its tensors as the borders say."""
        return [self._unit(number) for number in range(len(self._old))]

    def _borders(self, heads: Mapping[int, Any]) -> dict[int, Border]:
        """Results as they have to be; others so that there are the fewest transforms."""
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
            # Transformed once for most it has to be transformed back for those who want it as made.
            if as_made and most <= as_made + 1:
                how = None
            if tensor in heads:
                how = transform_of(heads[tensor])
            borders[tensor] = Border(type_after(self._raw[tensor].checked_type, how), how)
        return borders

    def _foreign(self, expression: Any, unit: int) -> tuple[int, Transform] | None:
        """The tensor of another unit or of the input that an expression is, perhaps transformed."""
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
        """A tensor of another unit as it crosses the border, transformed to what is wanted."""
        # Inputs are parameters of the whole: what they were before is part of it.
        crossing = self.borders[tensor].transform if tensor in self._maker else None
        if crossing == how:
            return parameter
        if crossing is None:
            return transformed(parameter, how)
        return transformed(parameter, (crossing[1], how[1] if how else crossing[0]))
