"""Write an operator's bindings again with other arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import relax

from relay_passes.relax.expressions import Emit, data_type, leaves, static_shape, substitute
from relay_passes.relax.extract import Extraction


def same(value: Any) -> Any:
    """Return the value unchanged."""
    return value


def emit_calls(
    emit: Emit,
    extraction: Extraction,
    op: int,
    values: dict[int, Any],
    rewrite: Callable[[Any], Any] = same,
) -> None:
    """Write the bindings of operator ``op`` with ``emit``, reading its inputs from ``values``.

    ``values`` maps tensors of the extraction and gets the results. ``rewrite`` may replace each
    expression before it is written.
    """
    operator = extraction.graph.operators[op]
    if operator.kind == "lrn":
        values[operator.outputs[0]] = emit_lrn(emit, values[operator.inputs[0]], operator.attrs)
        return
    number = extraction.number
    inner: dict[Any, Any] = {}
    for binding in extraction.bindings[op]:
        replacement = dict(inner)
        for leaf in leaves(binding.value):
            if number.get(leaf) in values:
                replacement[leaf] = values[number[leaf]]
        inner[binding.var] = emit(rewrite(substitute(binding.value, replacement)))
        if binding.var in number:
            values[number[binding.var]] = inner[binding.var]


def emit_lrn(emit: Emit, data: Any, attrs: Mapping[str, Any]) -> relax.Var:
    """Emit ``x / (bias + alpha / size * sum of x**2 over size channels) ** beta`` on NCHW data.

    A power of 3/4, the usual one, is two square roots: ``powf`` costs a hundred times more.
    """
    channels = static_shape(data)[1]
    size = int(attrs["size"])
    before = (size - 1) // 2
    dtype = data_type(data)
    squared = emit(relax.op.multiply(data, data))
    widths = [0, 0, before, size - 1 - before, 0, 0, 0, 0]
    padded = emit(relax.op.nn.pad(squared, widths, "constant", 0.0))
    total: Any = None
    for shift in range(size):
        part = emit(relax.op.strided_slice(padded, [1], [shift], [shift + channels]))
        total = part if total is None else emit(relax.op.add(total, part))
    scale = relax.const(float(attrs["alpha"]) / size, dtype)
    scaled = emit(relax.op.multiply(total, scale))
    norm = emit(relax.op.add(scaled, relax.const(float(attrs["bias"]), dtype)))
    if float(attrs["beta"]) == 0.75:
        root = emit(relax.op.sqrt(norm))
        power = emit(relax.op.multiply(root, emit(relax.op.sqrt(root))))
    else:
        power = emit(relax.op.power(norm, relax.const(float(attrs["beta"]), dtype)))
    return emit(relax.op.divide(data, power))
