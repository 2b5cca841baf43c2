"""Write an operator's bindings again with other arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relay_passes.relax.expressions import Emit, leaves, substitute
from relay_passes.relax.extract import Extraction
from relay_passes.relax.lrn import emit_lrn


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
