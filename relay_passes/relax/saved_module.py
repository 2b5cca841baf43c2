"""Canonicalise a Relax module that was read from a file."""

from __future__ import annotations

from pathlib import Path

import tvm

from relay_passes.dialect import DialectError
from relay_passes.relax.canonical.canonicalise import canonicalise
from relay_passes.relax.expressions import bindings_of, data_type, leaves, static_shape
from relay_passes.relax.fix_inputs import fix_inputs
from tvm_ios.shapes.input_shapes import Shapes


def import_saved(module: tvm.IRModule, path: Path, shapes: Shapes) -> tvm.IRModule:
    """Return the canonical form of a module; ``path`` is for errors.

    Raise UserError if an input stays dynamic, or a constant's declared type is not that of its
    data.
    """
    canonical = canonicalise(fix_inputs(module, shapes))
    for binding in bindings_of(canonical["main"]):
        for leaf in leaves(binding.value):
            if isinstance(leaf, tvm.ir.GenericConst):
                array = leaf.value.numpy()
                if (static_shape(leaf), data_type(leaf)) != (array.shape, str(array.dtype)):
                    raise DialectError(f"{path} misstates the type of a constant: it is damaged")
    return canonical
