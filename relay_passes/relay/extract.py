"""Read a canonical Relay module as a graph of operators that remembers their expressions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import tvm
from tvm import relay

from relay_passes.dialect import DialectError, require_elements
from relay_passes.relay.expressions import (
    arguments,
    operator_name,
    post_order,
    shape_of_type,
    static_shape,
    uses_of,
)
from relay_passes.relay.operators import kind_and_attrs
from relay_passes.relay.spellings import Spelling, spellings
from tvm_ios.graph.elements import AttrValue, Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.operators import is_bias, operator_flops


@dataclass(frozen=True)
class Extraction:
    """A graph of operators, and the expressions in the module that they were read from."""

    #: Operators in the post-order of their calls in a depth-first walk from the result.
    graph: OpGraph
    #: For each operator its calls, in order: several if the importer writes one operator as
    #: several.
    calls: tuple[tuple[relay.Call, ...], ...]
    #: For each tensor its expression: a parameter, a constant, a call, or a field of a call.
    values: tuple[Any, ...]
    #: The tensor of each expression, aliases included.
    number: Mapping[Any, int]


def extract(module: tvm.IRModule, name: str = "model") -> Extraction:
    """Read ``main`` of a canonical module.

    Raise DialectError if a shape is dynamic, or ``main`` has something that cannot be scheduled.
    """
    return _Extractor(module["main"], name).extract()


class _Extractor:
    def __init__(self, function: relay.Function, name: str) -> None:
        self.function = function
        self.name = name
        self.tensors: list[Tensor] = []
        self.values: list[Any] = []
        self.number: dict[Any, int] = {}
        self.operator_names: set[str] = set()
        self.tensor_names: set[str] = set()
        self.operators: list[Operator] = []
        self.calls: list[tuple[relay.Call, ...]] = []

    def extract(self) -> Extraction:
        inputs = [self._add(p, p.checked_type, p.name_hint) for p in self.function.params]
        order = post_order(self.function)
        spelled = spellings(order, uses_of(self.function))
        inside = {call for spelling in spelled.values() for call in spelling.calls[:-1]}
        for expression in order:
            if isinstance(expression, relay.Call):
                if expression not in inside:
                    self._call(expression, spelled.get(expression))
            elif isinstance(expression, relay.TupleGetItem):
                self._field(expression)
            elif not isinstance(expression, relay.Var | relay.Constant | relay.Tuple):
                name = type(expression).__name__
                raise DialectError(
                    f"the model has control flow ({name}), which cannot be scheduled"
                )
        # A constant output that is also a weight has another shape as a weight.
        outputs = [
            self._constant(leaf) if isinstance(leaf, relay.Constant) else self._read(leaf)
            for leaf in self._results()
        ]
        graph = OpGraph(
            self.name, tuple(self.operators), tuple(self.tensors), tuple(inputs), tuple(outputs)
        )
        return Extraction(graph, tuple(self.calls), tuple(self.values), self.number)

    def _results(self) -> Sequence[Any]:
        body = self.function.body
        if not isinstance(body, relay.Tuple):
            if isinstance(body.checked_type, relay.TupleType):
                raise DialectError("the model returns a tuple whole; return its fields")
            return (body,)
        if any(isinstance(field.checked_type, relay.TupleType) for field in body.fields):
            raise DialectError("the model returns a tuple inside a tuple; return its fields")
        return body.fields

    def _call(self, call: relay.Call, spelling: Spelling | None) -> None:
        if not isinstance(call.op, tvm.ir.Op):
            raise DialectError("the model calls a function: inline it first")
        if spelling is not None:
            self._operator(spelling.kind, spelling.attrs, spelling.reads, spelling.calls)
            return
        kind, attrs = kind_and_attrs(call)
        reads = arguments(call)
        if kind == "reshape":
            reads = reads[:1]
            if static_shape(reads[0]) == static_shape(call):
                self.number[call] = self._read(reads[0])
                return
        if kind == "pad":
            reads = reads[:1]
        if kind in ("add", "nn.bias_add") and (bias := _bias_position(call)) is not None:
            kind, attrs = "bias_add", {}
            reads = (call.args[1 - bias], call.args[bias])
        self._operator(kind, attrs, reads, (call,))

    def _operator(
        self,
        kind: str,
        attrs: Mapping[str, AttrValue],
        reads: Sequence[Any],
        calls: tuple[relay.Call, ...],
    ) -> None:
        numbers = tuple(self._read(leaf) for leaf in reads)
        last = calls[-1]
        if kind in ("bias_add", "dense", "matmul"):
            weight = self.tensors[numbers[1]]
            if weight.constant:
                shape = _as_onnx(kind, [static_shape(read) for read in (*reads, last)])
                self.tensors[numbers[1]] = Tensor(weight.name, shape, weight.dtype, True)
        name = self._unique(last, kind)
        fields = getattr(last.checked_type, "fields", None)
        if fields is None:
            results = (self._add(last, last.checked_type, name),)
        else:
            results = tuple(
                self._add((last, place), field, f"{name}.{place}")
                for place, field in enumerate(fields)
            )
        tensors = [self.tensors[t] for t in (*numbers, *results)]
        require_elements(kind, tensors)
        flops = operator_flops(kind, attrs, tensors[: len(numbers)], tensors[len(numbers) :])
        frozen = MappingProxyType(dict(attrs))
        self.operators.append(Operator(name, kind, numbers, results, frozen, flops))
        self.calls.append(calls)

    def _unique(self, call: relay.Call, kind: str) -> str:
        """Return a unique name for an operator: the ONNX node's, which the span holds, if any."""
        source = getattr(call.span, "source_name", None)
        base = source.name if source is not None else f"{kind}_{len(self.operators)}"
        name = base if base not in self.operator_names else f"{base}.{kind}"
        while name in self.operator_names:
            name += "'"
        self.operator_names.add(name)
        return name

    def _field(self, expression: relay.TupleGetItem) -> None:
        whole, index = expression.tuple_value, int(expression.index)
        if isinstance(whole, relay.Tuple):
            self.number[expression] = self._read(whole.fields[index])
        elif (whole, index) in self.number:
            self.number[expression] = self.number[whole, index]
            self.values[self.number[expression]] = expression
        else:
            raise DialectError(f"cannot take a field of the result of {operator_name(whole)}")

    def _add(self, key: Any, kind: Any, name: str) -> int:
        constant = isinstance(key, relay.Constant)
        number = len(self.tensors)
        shape = shape_of_type(kind, f"value {name!r}")
        if name in self.tensor_names:
            name = f"{name}.{number}"
        self.tensor_names.add(name)
        self.tensors.append(Tensor(name, shape, str(kind.dtype), constant))
        self.values.append(key)
        self.number[key] = number
        return number

    def _constant(self, leaf: relay.Constant) -> int:
        return self._add(leaf, leaf.checked_type, f"constant{len(self.tensors)}")

    def _read(self, leaf: Any) -> int:
        if leaf in self.number:
            return self.number[leaf]
        if isinstance(leaf, relay.Constant):
            return self._constant(leaf)
        raise DialectError(
            f"the tuple of {operator_name(leaf)} is passed on whole; take its fields"
        )


def _as_onnx(kind: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape that ONNX gives the constant that an operator reads second.

    ``shapes`` are those of the data, the constant and the result in Relay.
    """
    data, constant, result = shapes
    match kind:
        case "bias_add":
            return (math.prod(constant),)
        case "dense":
            return constant[::-1]
    return (*result[:-2], data[-1], result[-1])


def _bias_position(call: relay.Call) -> int | None:
    """Return the position of the constant per channel among an addition's arguments, or None."""
    for position, argument in enumerate(call.args):
        data = static_shape(call.args[1 - position])
        if not isinstance(argument, relay.Constant):
            continue
        if operator_name(call) == "nn.bias_add":
            axis = int(call.attrs.axis) % len(data)
            return position if axis == (1 if len(data) == 4 else len(data) - 1) else None
        if is_bias(data, static_shape(argument)):
            return position
    return None
