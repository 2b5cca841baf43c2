"""Write operators into a new ``main`` of Relay; see :class:`relay_passes.emitter.Emitter`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm import relay

from relay_passes.emitter import Body, Kind, OriginsOf
from relay_passes.relay.calls import emit_calls, same_call
from relay_passes.relay.expressions import (
    constant,
    constant_value,
    operator_name,
    shape_of_type,
    static_shape,
)
from relay_passes.relay.extract import Extraction
from relay_passes.relay.merge import emit_stacked
from runtime_ext.relay.module_copies import with_functions, with_main
from tvm_ios.graph.merge_rule import MergePlan
from tvm_ios.graphturbo.origins import Origin

#: Operators with padding, and the other attributes, which are kept.
_WINDOW = ("strides", "dilation", "layout", "out_layout", "ceil_mode", "pool_size")
_PADDED = {
    "nn.conv2d": ("strides", "dilation", "groups", "channels", "kernel_size", "out_dtype"),
    "nn.max_pool2d": _WINDOW,
    "nn.avg_pool2d": (*_WINDOW, "count_include_pad"),
}


def rewrite_main(
    module: tvm.IRModule, extraction: Extraction, body: Body
) -> tuple[tvm.IRModule, OriginsOf]:
    """Write the body of ``main`` anew; return the module and a finder of its operators' origins."""
    old = module["main"]
    emitter = RelayEmitter(extraction)
    results = body(emitter, old.params)
    whole = relay.Tuple(list(results)) if isinstance(old.body, relay.Tuple) else results[0]
    # TVM keeps only the order of let bindings.
    for variable, call in reversed(emitter.calls):
        whole = relay.Let(variable, call, whole)
    main = relay.Function(old.params, whole, None, old.type_params, old.attrs)
    functions = {**dict(module.functions.items()), **emitter.functions}

    def origins_of(new: Extraction) -> list[Origin]:
        return [emitter.origins[int(calls[-1].span.source_name.name)] for calls in new.calls]

    return with_main(with_functions(module, functions), main), origins_of


class RelayEmitter:
    """A writer of an extraction's operators as expressions, numbered by spans, which passes keep.

    Attributes
    ----------
    functions
        The functions beside ``main``.
    calls
        The calls of these, in order, each with the variable that it is bound to.
    origin
        The origin of what is written next.
    origins
        The origin of each call of an operator, by its number.
    """

    def __init__(self, extraction: Extraction) -> None:
        self.functions: dict[relay.GlobalVar, relay.Function] = {}
        self.calls: list[tuple[relay.Var, relay.Call]] = []
        self.origin = Origin()
        self.origins: list[Origin] = []
        self._extraction = extraction

    def operator(
        self,
        op: int,
        values: dict[int, Any],
        shapes: Mapping[int, Sequence[int]],
        pads: Sequence[int] | None = None,
    ) -> None:
        """Write an operator for inputs of other extents than it was written for."""
        operator, calls = self._extraction.graph.operators[op], self._extraction.calls[op]

        def resized(call: relay.Call, arguments: Sequence[Any]) -> Any:
            resized_call = same_call(call, arguments)
            if operator.kind == "reshape" or operator_name(call) == "reshape":
                # A reshape before or after a product keeps the last axes.
                last = call is calls[-1]
                shape = shapes[operator.outputs[0]] if last else (-1, *static_shape(call)[1:])
                resized_call = relay.reshape(arguments[0], list(shape))
            elif pads is not None:
                resized_call = _padded(resized_call, pads)
            return self._marked(resized_call)

        emit_calls(self._extraction, op, values, resized)

    def sliced(
        self,
        value: Any,
        axes: Sequence[int],
        begins: Sequence[int],
        ends: Sequence[int],
        steps: Sequence[int],
    ) -> Any:
        """Return a slice of a value along some axes."""
        ranges = (list(begins), list(ends), list(steps), list(axes))
        return self._marked(relay.strided_slice(value, *ranges))

    def joined(self, values: Sequence[Any], axis: int) -> Any:
        """Return values concatenated along an axis."""
        return self._marked(relay.concatenate(list(values), axis))

    def stacked(
        self,
        plan: MergePlan,
        data: Any,
        weights: tuple[Any, Any],
        pads: Sequence[int] | None = None,
    ) -> list[Any]:
        """Write one convolution that merges several units; return the result of each unit."""
        return emit_stacked(self._marked, plan, data, weights, pads)

    def constant_part(self, value: Any, at: tuple[slice, ...]) -> Any | None:
        """Return a slice of a constant, or None if the value is a parameter."""
        array = constant_value(value)
        return None if array is None else constant(array[at])

    def shape(self, value: Any) -> tuple[int, ...]:
        """Return the extents of a value."""
        return shape_of_type(relay.transform.InferTypeLocal(value), "a part")

    def function(
        self,
        name: str,
        attributes: Mapping[str, int],
        data: Sequence[Kind],
        constants: Sequence[int],
        body: Body,
    ) -> Any:
        """Define a private function beside ``main``; return it for :meth:`call`."""
        types = [relay.TensorType(shape, dtype) for shape, dtype in data]
        types += [self._extraction.values[tensor].checked_type for tensor in constants]
        parameters = [relay.Var(f"p{place}", kind) for place, kind in enumerate(types)]
        results = body(RelayEmitter(self._extraction), parameters)
        whole = results[0] if len(results) == 1 else relay.Tuple(list(results))
        function = relay.Function(parameters, whole, relay.transform.InferTypeLocal(whole))
        for key, value in attributes.items():
            function = function.with_attr(key, tvm.tir.IntImm("int64", value))
        variable = relay.GlobalVar(name)
        self.functions[variable] = function
        return variable

    def call(self, function: Any, arguments: Sequence[Any], results: int) -> list[Any]:
        """Write a call of a function; return its results."""
        kind = self.functions[function].ret_type
        variable = relay.Var(f"{function.name_hint}_{len(self.calls)}", kind)
        self.calls.append((variable, relay.Call(function, list(arguments))))
        if results == 1:
            return [variable]
        return [relay.TupleGetItem(variable, field) for field in range(results)]

    def _marked(self, call: relay.Call) -> relay.Call:
        """Return a call with its type inferred and its number as span."""
        span = tvm.ir.Span(tvm.ir.SourceName(str(len(self.origins))), 0, 0, 0, 0)
        self.origins.append(self.origin)
        marked = relay.Call(call.op, call.args, call.attrs, call.type_args, span)
        relay.transform.InferTypeLocal(marked)
        return marked


def _padded(call: relay.Call, pads: Sequence[int]) -> relay.Call:
    """Return a convolution, pooling or padding with other pads."""
    name = operator_name(call)
    if name == "nn.pad":
        widths = list(zip(pads[::2], pads[1::2], strict=True))
        return relay.nn.pad(call.args[0], widths, call.args[1], call.attrs.pad_mode)
    attributes = {key: call.attrs[key] for key in _PADDED[name]}
    return getattr(relay.nn, name.removeprefix("nn."))(*call.args, padding=list(pads), **attributes)
