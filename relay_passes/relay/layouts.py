"""Layouts that convolutions want (NCHW16c), kept from unit to unit.

TVM's ``AlterOpLayout`` decides, seeing the whole network; inside a unit it would transform the data
of every convolution to its layout and back. So the units' bodies are put together, altered, and
cut again: an operator's span says which unit it is of. Between units a tensor has one layout;
constants are transformed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import relay

from relay_passes.dialect import DialectError
from relay_passes.relay.expressions import (
    children,
    constant_value,
    operator_name,
    post_order,
    rebuild,
    shape_of_type,
    substitute,
)
from relay_passes.relay.fold_constants import folded
from relay_passes.relay.kernels import RelayUnitFunction
from runtime_ext.relay.tuning_log import AutotvmLog

#: A layout transform, from and to; None is none.
Transform = tuple[str, str] | None


@dataclass(frozen=True)
class LayoutChoice:
    """What layouts are chosen for.

    Attributes
    ----------
    target
        Of the kernels.
    log
        Tuned kernels; without it those count that AutoTVM's current context knows.
    """

    target: tvm.target.Target
    log: AutotvmLog | None = None

    @property
    def matters(self) -> bool:
        """Only CPUs have kernels for such layouts."""
        return "cpu" in self.target.keys

    def alter(self, main: relay.Function) -> tvm.IRModule:
        """A module of the function in altered layouts, types inferred."""
        module = tvm.IRModule.from_expr(main)
        with ExitStack() as stack:
            if self.log is not None:
                stack.enter_context(self.log.applied())
            stack.enter_context(self.target)
            stack.enter_context(tvm.transform.PassContext(opt_level=3))
            infer = relay.transform.InferType()
            passes = [infer, relay.transform.AlterOpLayout(), infer]
            return tvm.transform.Sequential(passes)(module)


@dataclass(frozen=True)
class Border:
    """How a tensor goes from unit to unit.

    Attributes
    ----------
    type
        Its Relay type there.
    transform
        What its unit does to it first, or would have to do.
    """

    type: relay.TensorType
    transform: Transform = None


def alter_layouts(
    units: Sequence[RelayUnitFunction],
    inputs: Mapping[int, Border],
    results: Mapping[int, Transform],
    choice: LayoutChoice,
) -> tuple[list[RelayUnitFunction], dict[int, Border]]:
    """The same units in altered layouts, and the tensors between them.

    Parameters
    ----------
    units
        In an order in which they can run.
    inputs
        Tensors that none of them makes. One with a transform comes transformed already.
    results
        Tensors to return, each transformed so.
    choice
        What the layouts are for.
    """
    whole = _Whole(units, inputs)
    body = relay.Tuple([_transformed(whole.value[t], how) for t, how in results.items()])
    module = choice.alter(relay.Function(whole.parameters, body))
    module = rebuild(module, _simplified)
    return _Cut(units, whole, module["main"], inputs, list(results)).units()


class _Whole:
    """The bodies of units put together, every call numbered in its span."""

    def __init__(self, units: Sequence[RelayUnitFunction], inputs: Mapping[int, Border]) -> None:
        self.parameters = [relay.Var(f"x{t}", border.type) for t, border in inputs.items()]
        self.value: dict[int, Any] = {}
        #: The unit of each call.
        self.owner: list[int] = []
        for parameter, (tensor, border) in zip(self.parameters, inputs.items(), strict=True):
            self.value[tensor] = _transformed(parameter, border.transform, back=True)
        for number, unit in enumerate(units):
            results = self._inline(number, unit)
            self.value.update(zip(unit.outputs, results, strict=True))

    def _inline(self, number: int, unit: RelayUnitFunction) -> Sequence[Any]:
        function = _canonical(unit.function)
        given = [*(self.value[t] for t in unit.data), *unit.constants]
        new: dict[Any, Any] = dict(zip(function.params, given, strict=True))
        for expression in post_order(function):
            if expression in new:
                continue
            made = substitute(expression, new.__getitem__)
            if isinstance(made, relay.Call):
                made = folded(expression, made) or self._numbered(number, made)
            new[expression] = made
        result = new[function.body]
        if len(unit.outputs) == 1:
            return [result]
        if isinstance(result, relay.Tuple):
            return result.fields
        return [relay.TupleGetItem(result, place) for place in range(len(unit.outputs))]

    def _numbered(self, unit: int, call: relay.Call) -> relay.Call:
        source = tvm.ir.SourceName(str(len(self.owner)))
        self.owner.append(unit)
        span = tvm.ir.Span(source, 0, 0, 0, 0)
        return relay.Call(call.op, call.args, call.attrs, call.type_args, span)


class _Cut:
    """Cuts what was put together where its units meet."""

    def __init__(
        self,
        units: Sequence[RelayUnitFunction],
        whole: _Whole,
        main: relay.Function,
        inputs: Mapping[int, Border],
        results: Sequence[int],
    ) -> None:
        self.old = units
        self.owner = whole.owner
        self.maker = {t: number for number, unit in enumerate(units) for t in unit.outputs}
        #: The tensor behind a parameter or a numbered call, or a field of one.
        self.tensor = {_key(whole.value[t]): t for t in self.maker}
        self.tensor |= {_key(p): t for p, t in zip(main.params, inputs, strict=True)}
        self.calls: list[list[Any]] = [[] for _ in units]
        #: The expression of each tensor as its operator makes it.
        self.raw: dict[int, Any] = dict(zip(inputs, main.params, strict=True))
        order = post_order(main)
        for expression in order:
            key = _key(expression)
            if key in self.tensor:
                self.raw[self.tensor[key]] = expression
            if isinstance(expression, relay.Call) and key is not None:
                self.calls[self.owner[key[0]]].append(expression)
        self.borders = self._choose(main, order, inputs, results)

    def units(self) -> tuple[list[RelayUnitFunction], dict[int, Border]]:
        """The units anew."""
        return [self._unit(number) for number in range(len(self.old))], self.borders

    def _choose(
        self,
        main: relay.Function,
        order: Sequence[Any],
        inputs: Mapping[int, Border],
        results: Sequence[int],
    ) -> dict[int, Border]:
        """What the network returns is as it should be; else what most readers want, if all do."""
        wanted: dict[int, Counter[Transform]] = {}
        for expression in order:
            if isinstance(expression, relay.Call) and (key := _key(expression)) is not None:
                for child in children(expression):
                    for tensor, how in self._reads(child, self.owner[key[0]]):
                        wanted.setdefault(tensor, Counter())[how] += 1
        chosen: dict[int, Transform] = {}
        for tensor, counts in wanted.items():
            raw = None in counts or tensor in inputs
            chosen[tensor] = None if raw else counts.most_common(1)[0][0]
        for tensor, head in zip(results, main.body.fields, strict=True):
            chosen[tensor] = _how(head)
        made = {t: Border(border.type, border.transform) for t, border in inputs.items()}
        for tensor in self.maker:
            how = chosen.get(tensor)
            kind = self.raw[tensor].checked_type
            made[tensor] = Border(_type_in(kind, how), how)
        return made

    def _reads(self, expression: Any, unit: int) -> Iterator[tuple[int, Transform]]:
        """The tensors of others that a unit reads, and how it wants them."""
        key = _key(expression)
        if key in self.tensor:
            if self.maker.get(self.tensor[key]) != unit:
                yield self.tensor[key], None
        elif key is None:
            inner = children(expression)
            how = _how(expression)
            if how and _key(inner[0]) in self.tensor:
                tensor = self.tensor[_key(inner[0])]
                if self.maker.get(tensor) != unit:
                    yield tensor, how
                return
            for child in inner:
                yield from self._reads(child, unit)

    def _unit(self, number: int) -> RelayUnitFunction:
        old = self.old[number]
        data = {t: relay.Var(f"p{i}", self.borders[t].type) for i, t in enumerate(old.data)}
        constants: dict[Any, relay.Var] = {}
        made: dict[Any, Any] = {}

        def theirs(tensor: int, how: Transform) -> Any:
            """A parameter as it is wanted."""
            border = _NO_BORDER if tensor not in self.maker else self.borders[tensor].transform
            variable = data[tensor]
            if border == how:
                return variable
            if border is None:
                return _transformed(variable, how)
            return _transformed(variable, (border[1], how[1] if how else border[0]))

        def new(expression: Any) -> Any:
            if expression in made:
                return made[expression]
            key, inner = _key(expression), children(expression)
            how = _how(expression)
            if key in self.tensor and self.maker.get(self.tensor[key]) != number:
                made[expression] = theirs(self.tensor[key], None)
            elif (
                how
                and (inner_key := _key(inner[0])) in self.tensor
                and self.maker.get(self.tensor[inner_key]) != number
            ):
                made[expression] = theirs(self.tensor[inner_key], how)
            elif (value := constant_value(expression)) is not None and value.ndim:
                name = f"p{len(data) + len(constants)}"
                constants[expression] = relay.var(name, shape=value.shape, dtype=str(value.dtype))
                made[expression] = constants[expression]
            elif key is not None and self.owner[key[0]] != number:
                raise DialectError(
                    f"the unit {old.name!r} reads what another one keeps to itself: report this"
                )
            else:
                made[expression] = _unnumbered(substitute(expression, new))
            return made[expression]

        for call in self.calls[number]:
            new(call)
        outputs = [_transformed(new(self.raw[t]), self.borders[t].transform) for t in old.outputs]
        body = outputs[0] if len(outputs) == 1 else relay.Tuple(outputs)
        function = relay.Function([*data.values(), *constants.values()], body)
        return replace(old, function=function, constants=tuple(constants))


#: Parameters of the whole come in one layout, that of their types.
_NO_BORDER: Transform = None


def _canonical(function: relay.Function) -> relay.Function:
    """With operators that layouts pass through: a ``bias_add`` is an addition."""
    infer = relay.transform.InferType()
    passes = tvm.transform.Sequential([infer, relay.transform.CanonicalizeOps(), infer])
    with tvm.transform.PassContext(opt_level=3):
        return passes(tvm.IRModule.from_expr(function))["main"]


def _key(expression: Any) -> Any:
    """Equal for an expression before and after it is altered; None for what was put in."""
    if isinstance(expression, relay.TupleGetItem):
        inner = _key(expression.tuple_value)
        return None if inner is None else (inner[0], int(expression.index))
    if isinstance(expression, relay.Call) and expression.span is not None:
        return (int(expression.span.source_name.name),)
    return (expression.name_hint,) if isinstance(expression, relay.Var) else None


def _simplified(old: Any, same: Any) -> Any:
    """Transforms of constants computed, two in a row as one."""
    if not isinstance(same, relay.Call):
        return None
    constant = folded(old, same)
    if constant is not None:
        return constant
    how = _how(same)
    before = _how(same.args[0]) if how else None
    if how is None or before is None:
        return None
    return _transformed(same.args[0].args[0], (before[0], how[1]))


def _how(expression: Any) -> Transform:
    """What a layout transform does that is no operator of the model."""
    if operator_name(expression) != "layout_transform" or expression.span is not None:
        return None
    return str(expression.attrs.src_layout), str(expression.attrs.dst_layout)


def _transformed(expression: Any, how: Transform, back: bool = False) -> Any:
    if how is None or how[0] == how[1]:
        return expression
    source, target = reversed(how) if back else how
    return relay.layout_transform(expression, source, target)


def _type_in(kind: relay.TensorType, how: Transform) -> relay.TensorType:
    if how is None:
        return kind
    variable = relay.Var("x", relay.TensorType(shape_of_type(kind, "a tensor"), kind.dtype))
    body = _transformed(variable, how)
    module = tvm.IRModule.from_expr(relay.Function([variable], body))
    return relay.transform.InferType()(module)["main"].body.checked_type


def _unnumbered(expression: Any) -> Any:
    if isinstance(expression, relay.Call) and expression.span is not None:
        return relay.Call(expression.op, expression.args, expression.attrs, expression.type_args)
    return expression
