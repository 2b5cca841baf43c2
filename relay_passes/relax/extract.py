"""Read a canonical Relax module as a graph of operators that remembers their bindings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import tvm
from tvm import relax
from tvm.ir import GenericConst

from relay_passes.dialect import DialectError, require_elements
from relay_passes.relax.expressions import Leaf, bindings_of, data_type, leaves, static_shape
from relay_passes.relax.operators import kind_and_attrs
from relay_passes.relax.spellings import operator_groups, spelled_kind_and_attrs
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.operators import is_bias, operator_flops


@dataclass(frozen=True)
class Extraction:
    """A graph of operators, and the expressions in the module that they were read from."""

    #: Operators in the order of their bindings.
    graph: OpGraph
    #: For each operator its bindings, in order: several if it has several outputs, or if the module
    #: writes it as several operators.
    bindings: tuple[tuple[relax.VarBinding, ...], ...]
    #: For each tensor the variable or constant.
    values: tuple[Leaf, ...]
    #: The tensor of each variable and constant, aliases included.
    number: Mapping[Leaf, int]


def extract(module: tvm.IRModule, name: str = "model") -> Extraction:
    """Read ``main`` of a canonical module.

    Raise DialectError if a shape is dynamic, or an operator's tuple is passed on as a whole.
    """
    return _Extractor(module["main"], name).extract()


class _Extractor:
    def __init__(self, function: relax.Function, name: str) -> None:
        self.function = function
        self.name = name
        self.tensors: list[Tensor] = []
        self.values: list[Leaf] = []
        self.number: dict[Any, int] = {}
        self.names: set[str] = set()
        self.operators: list[Operator] = []
        self.bindings: list[tuple[relax.VarBinding, ...]] = []

    def extract(self) -> Extraction:
        inputs = [self._add(parameter) for parameter in self.function.params]
        bindings = bindings_of(self.function)
        fields = _tuple_fields(bindings)
        for group in operator_groups(self.function):
            last = group[-1]
            value = last.value
            if isinstance(value, relax.Var | GenericConst):
                self.number[last.var] = self._number(value)
            elif isinstance(value, relax.Call):
                _require_operator(value)
                outputs = fields.get(last.var)
                if outputs is not None and not outputs[0]:
                    raise DialectError(
                        f"the tuple {last.var.name!r} is passed on whole; take its fields"
                    )
                self._operator(group, value, [last.var] if outputs is None else outputs[0])
                if outputs is not None:
                    self.bindings[-1] = (*group, *outputs[1])
            elif not isinstance(value, relax.TupleGetItem | relax.Tuple):
                raise DialectError(f"cannot schedule a {type(value).__name__}")
        result = self.function.body.body
        spelled = {b.var: b.value for b in bindings}
        while isinstance(result, relax.Var) and isinstance(
            spelled.get(result), relax.Var | relax.Tuple
        ):
            result = spelled[result]
        if isinstance(result, relax.Tuple) and any(
            isinstance(field.ty, relax.TupleType) for field in result.fields
        ):
            raise DialectError("the model returns a tuple inside a tuple; return its fields")
        returned = result.fields if isinstance(result, relax.Tuple) else [result]
        for field in returned:
            if not isinstance(field, relax.Var | GenericConst):
                raise DialectError(f"the model returns {field}, which is no tensor: leave it out")
        # A constant output that is also a bias has another shape as a bias.
        outputs = [
            self._number(leaf) if isinstance(leaf, relax.Var) else self._add(leaf)
            for leaf in leaves(result)
        ]
        graph = OpGraph(
            self.name, tuple(self.operators), tuple(self.tensors), tuple(inputs), tuple(outputs)
        )
        return Extraction(graph, tuple(self.bindings), tuple(self.values), self.number)

    def _operator(
        self, group: tuple[relax.VarBinding, ...], call: relax.Call, outputs: list[relax.Var]
    ) -> None:
        reads = list(leaves(call))
        spelled = spelled_kind_and_attrs(group)
        if spelled is not None:
            kind, attrs = spelled
            inside = {binding.var for binding in group}
            reads = [leaf for b in group for leaf in leaves(b.value) if leaf not in inside]
            reads = [leaf for leaf in dict.fromkeys(reads) if isinstance(leaf, relax.Var)]
        else:
            kind, attrs = kind_and_attrs(call, group[-1].var)
        if kind == "add" and (bias := _bias_position(call)) is not None:
            kind = "bias_add"
            reads = [call.args[1 - bias], call.args[bias]]
        if kind == "reshape":
            if static_shape(reads[0]) == static_shape(outputs[0]):
                self.number[outputs[0]] = self._number(reads[0])
                return
            reads = reads[:1]
        numbers = tuple(self._number(leaf) for leaf in reads)
        if kind == "bias_add":
            size = static_shape(reads[1])
            self.tensors[numbers[1]] = Tensor(
                self.tensors[numbers[1]].name, (max(size, default=1),), data_type(reads[1]), True
            )
        results = tuple(self._add(variable) for variable in outputs)
        require_elements(kind, [self.tensors[t] for t in (*numbers, *results)])
        read, written = ([self.tensors[t] for t in side] for side in (numbers, results))
        flops = operator_flops(kind, attrs, read, written)
        frozen = MappingProxyType(attrs)
        self.operators.append(Operator(written[0].name, kind, numbers, results, frozen, flops))
        self.bindings.append(group)

    def _add(self, leaf: Leaf) -> int:
        constant = not isinstance(leaf, relax.Var)
        shape = static_shape(leaf)
        number = len(self.tensors)
        name = f"constant{number}" if constant else leaf.name
        if name in self.names:
            name = f"{name}.{number}"
        self.names.add(name)
        self.tensors.append(Tensor(name, shape, data_type(leaf), constant))
        self.values.append(leaf)
        self.number[leaf] = number
        return number

    def _number(self, leaf: Leaf) -> int:
        if leaf in self.number:
            return self.number[leaf]
        if isinstance(leaf, relax.Var):
            raise DialectError(f"the tuple {leaf.name!r} is passed on whole; take its fields")
        return self._add(leaf)


def _require_operator(call: relax.Call) -> None:
    """Raise DialectError for a call of a function or of an operator with side effects."""
    if isinstance(call.op, tvm.ir.GlobalVar):
        raise DialectError(
            f"main calls the function {call.op.name_hint!r}, which is made by another code "
            "generator: schedule the module from before it was partitioned"
        )
    if not isinstance(call.op, tvm.ir.Op):
        raise DialectError(f"main calls {call.op}, which is no operator: schedule without it")
    if call.op.get_attr("FPurity") is not None and not call.op.get_attr("FPurity"):
        raise DialectError(
            f"main calls {call.op.name}, which does more than compute: remove it from the model"
        )


def _tuple_fields(
    bindings: list[relax.VarBinding],
) -> dict[Any, tuple[list[relax.Var], list[relax.VarBinding]]]:
    """Return the variables and bindings of the fields of each call that returns a tuple."""
    fields: dict[Any, tuple[list[relax.Var], list[relax.VarBinding]]] = {}
    for binding in bindings:
        if isinstance(binding.value, relax.Call) and isinstance(binding.var.ty, relax.TupleType):
            fields[binding.var] = ([], [])
        elif isinstance(binding.value, relax.TupleGetItem):
            whole = binding.value.tuple_value
            if whole in fields:
                fields[whole][0].append(binding.var)
                fields[whole][1].append(binding)
    return fields


def _bias_position(call: relax.Call) -> int | None:
    """Return the position of the constant per channel among an addition's arguments, or None."""
    for position, argument in enumerate(call.args):
        if isinstance(argument, GenericConst):
            data = static_shape(call.args[1 - position])
            if is_bias(data, static_shape(argument)):
                return position
    return None
