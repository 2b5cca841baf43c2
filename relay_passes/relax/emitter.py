"""Write operators into a new ``main`` of Relax; see :class:`relay_passes.emitter.Emitter`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm import relax

from relay_passes.emitter import Body, Kind, OriginsOf
from relay_passes.relax.calls import emit_calls
from relay_passes.relax.expressions import static_shape
from relay_passes.relax.extract import Extraction
from relay_passes.relax.merge import emit_stacked
from runtime_ext.kernels.function_builder import FunctionBuilder
from runtime_ext.kernels.relax_function import attributes_of, with_attributes
from runtime_ext.module_copies import with_functions
from tvm_ios.graph.merge_rule import MergePlan
from tvm_ios.graphturbo.origins import Origin


def rewrite_main(
    module: tvm.IRModule, extraction: Extraction, body: Body
) -> tuple[tvm.IRModule, OriginsOf]:
    """Write the body of ``main`` anew; return the module and a finder of its operators' origins."""
    old = module["main"]
    others = {v: f for v, f in module.functions_items() if v.name_hint != "main"}
    builder = FunctionBuilder(tvm.IRModule(others))
    parameters = [relax.Var(p.name, p.ty) for p in old.params]
    attributes = dict(old.attrs.items()) if old.attrs else None
    several = isinstance(old.ret_ty, relax.TupleType)
    emitter = RelaxEmitter(builder, extraction)
    with builder.function("main", parameters, attrs=attributes):
        with builder.dataflow():
            results = body(emitter, parameters)
            result = builder.emit_output(relax.Tuple(results) if several else results[0])
        builder.emit_func_output(result)
    rewritten = with_functions(module, dict(builder.finalize().functions_items()))
    return rewritten, lambda new: [emitter.origins[group[0].var] for group in new.bindings]


class RelaxEmitter:
    """A builder of a Relax function, into which operators of an extraction are written.

    ``origin`` is recorded in ``origins`` as that of each variable that is written.
    """

    def __init__(self, builder: relax.BlockBuilder, extraction: Extraction) -> None:
        self.origin = Origin()
        self.origins: dict[relax.Var, Origin] = {}
        self._builder = builder
        self._extraction = extraction

    def operator(
        self,
        op: int,
        values: dict[int, Any],
        shapes: Mapping[int, Sequence[int]],
        pads: Sequence[int] | None = None,
    ) -> None:
        """Write an operator for inputs of other extents than it was written for."""
        operator = self._extraction.graph.operators[op]

        def resized(value: Any) -> Any:
            if operator.kind == "reshape":
                return relax.op.reshape(value.args[0], list(shapes[operator.outputs[0]]))
            return value if pads is None else _padded(value, pads)

        emit_calls(self._emit, self._extraction, op, values, resized)

    def sliced(
        self,
        value: Any,
        axes: Sequence[int],
        begins: Sequence[int],
        ends: Sequence[int],
        steps: Sequence[int],
    ) -> Any:
        """Return a slice of a value along some axes."""
        strides = list(steps) if set(steps) != {1} else None
        call = relax.op.strided_slice(value, list(axes), list(begins), list(ends), strides)
        return self._emit(call)

    def joined(self, values: Sequence[Any], axis: int) -> Any:
        """Return values concatenated along an axis."""
        return self._emit(relax.op.concat(list(values), axis=axis))

    def stacked(
        self,
        plan: MergePlan,
        data: Any,
        weights: tuple[Any, Any],
        pads: Sequence[int] | None = None,
    ) -> list[Any]:
        """Write one convolution that merges several units; return the result of each unit."""
        return emit_stacked(self._emit, plan, data, weights, pads)

    def constant_part(self, value: Any, at: tuple[slice, ...]) -> Any | None:
        """Return a slice of a constant, or None if the value is a parameter."""
        if isinstance(value, relax.Var):
            return None
        array = value.value.numpy()[at]
        return relax.const(array, str(array.dtype))

    def shape(self, value: Any) -> tuple[int, ...]:
        """Return the extents of a value."""
        return static_shape(value)

    def function(
        self,
        name: str,
        attributes: Mapping[str, int],
        data: Sequence[Kind],
        constants: Sequence[int],
        body: Body,
    ) -> Any:
        """Define a private function beside ``main``; return it for :meth:`call`."""
        types = [relax.TensorType(list(shape), dtype) for shape, dtype in data]
        types += [self._extraction.values[tensor].ty for tensor in constants]
        parameters = [relax.Var(f"p{place}", kind) for place, kind in enumerate(types)]
        builder = FunctionBuilder()
        with builder.function(name, parameters, attrs=dict(attributes), private=True):
            with builder.dataflow():
                results = body(RelaxEmitter(builder, self._extraction), parameters)
                whole = results[0] if len(results) == 1 else relax.Tuple(results)
                result = builder.emit_output(whole)
            variable = builder.emit_func_output(result)
        return self._builder.add_func(builder.finalize()[variable], name)

    def call(self, function: Any, arguments: Sequence[Any], results: int) -> list[Any]:
        """Write a call of a function; return its results."""
        whole = self._emit(relax.Call(function, list(arguments)))
        if results == 1:
            return [whole]
        return [self._emit(relax.TupleGetItem(whole, field)) for field in range(results)]

    def _emit(self, value: Any) -> relax.Var:
        variable = self._builder.emit(value)
        self.origins[variable] = self.origin
        return variable


def _padded(call: relax.Call, pads: Sequence[int]) -> relax.Call:
    """Return a convolution, pooling or padding with other pads."""
    name = "pad_width" if "pad_width" in attributes_of(call) else "padding"
    return with_attributes(call, **{name: list(pads)})
