"""An operator for inputs of other extents than it was written for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import relax

from relay_passes.relax.bindings import leaves, substitute
from relay_passes.relax.extract import Extraction
from relay_passes.relax.lrn import emit_lrn


def emit_resized(
    builder: relax.BlockBuilder,
    extraction: Extraction,
    op: int,
    made: dict[int, Any],
    shape_of: Callable[[int], Sequence[int]],
    prefix: str | None = None,
    pads: Sequence[int] | None = None,
) -> None:
    """Emit an operator for more images, for fewer, or for some rows of them.

    Parameters
    ----------
    builder, extraction, op
        Which operator, and where to.
    made
        Maps tensors of the extraction to the builder's values; gets the operator's results.
    shape_of
        The shape of a tensor there, asked where an operator has it written down.
    prefix
        Of the names of the results.
    pads
        Instead of those that it has: of windows top, left, bottom, right; of a padding before
        and after, axis by axis.
    """
    operator = extraction.graph.operators[op]
    if operator.kind == "lrn":
        name = "" if prefix is None else f"{prefix}{operator.name}"
        made[operator.outputs[0]] = emit_lrn(
            builder, made[operator.inputs[0]], operator.attrs, name
        )
        return
    inner: dict[Any, Any] = {}
    for binding in extraction.bindings[op]:
        replacement = dict(inner)
        for leaf in leaves(binding.value):
            number = extraction.number.get(leaf)
            if number in made:
                replacement[leaf] = made[number]
        value = substitute(binding.value, replacement)
        if operator.kind == "reshape":
            value = relax.op.reshape(value.args[0], list(shape_of(operator.outputs[0])))
        if pads is not None:
            value = _padded(value, pads)
        hint = "" if prefix is None else f"{prefix}{binding.var.name}"
        result = builder.emit(value, hint)
        inner[binding.var] = result
        if binding.var in extraction.number:
            made[extraction.number[binding.var]] = result


def _padded(call: relax.Call, pads: Sequence[int]) -> relax.Call:
    """A convolution, a pooling or a padding with other pads."""
    kind = type(call.attrs).__tvm_ffi_type_info__
    attributes = {item.name: getattr(call.attrs, item.name) for item in kind.fields}
    name = "pad_width" if "pad_width" in attributes else "padding"
    changed = tvm.ir.make_node(kind.type_key, **attributes | {name: list(pads)})
    return relax.Call(call.op, call.args, changed, call.ty_args)
