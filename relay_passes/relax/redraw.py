"""Replace weights by random ones that can be drawn again from a seed instead of being shipped."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm.ir import GenericConst

from relay_passes.relax.expressions import constant
from runtime_ext.bundle.weights import Draw
from runtime_ext.execution.buffers import content_key
from runtime_ext.module_copies import with_functions


def redraw_weights(module: tvm.IRModule, seed: int) -> tuple[tvm.IRModule, dict[str, Draw]]:
    """Replace the large constants of a module by random ones of equal mean and deviation.

    Return the module, and for each new constant, by the key of its content, how it is drawn.
    """
    drawn: dict[str, Draw] = {}

    def replace(old: Any) -> Any:
        draw = Draw.like(old.value.numpy(), seed)
        if draw is None:
            return old
        array = draw.array()
        drawn[content_key(array)] = draw
        return constant(array)

    functions = {
        variable: tvm_ffi.structural_map(function, (GenericConst, replace))
        for variable, function in module.functions_items()
    }
    return with_functions(module, functions), drawn
