"""Write an operator's calls again with other arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relay

from relay_passes.relay.extract import Extraction

#: Returns the replacement of a call, given its new arguments.
Rewrite = Callable[[relay.Call, Sequence[Any]], Any]


def same_call(call: relay.Call, arguments: Sequence[Any]) -> relay.Call:
    """Return the call with other arguments."""
    return relay.Call(call.op, arguments, call.attrs, call.type_args)


def emit_calls(
    extraction: Extraction, op: int, values: dict[int, Any], rewrite: Rewrite = same_call
) -> None:
    """Write the calls of operator ``op`` again, reading its inputs from ``values``.

    ``values`` maps tensors of the extraction to expressions and gets the results. ``rewrite`` makes
    the new call of each old one and its new arguments, in order.
    """
    inner: dict[Any, Any] = {}

    def new(old: Any) -> Any:
        if old in inner:
            return inner[old]
        number = extraction.number.get(old)
        if number in values:
            return values[number]
        if isinstance(old, relay.Tuple):
            return relay.Tuple([new(field) for field in old.fields])
        return old

    for call in extraction.calls[op]:
        inner[call] = rewrite(call, [new(argument) for argument in call.args])
    last = extraction.calls[op][-1]
    result, several = inner[last], isinstance(last.checked_type, relay.TupleType)
    for place, tensor in enumerate(extraction.graph.operators[op].outputs):
        values[tensor] = relay.TupleGetItem(result, place) if several else result
