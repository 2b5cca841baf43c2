"""Canonicalise a Relay module that was read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tvm
from tvm import relay

from relay_passes.dialect import DialectError
from relay_passes.relay.canonical.canonicalise import canonicalise
from runtime_ext.relay.module_copies import with_main
from tvm_ios.shapes.input_shapes import Extent, Shapes, resolve_shapes


def import_saved(module: tvm.IRModule, path: Path, shapes: Shapes) -> tvm.IRModule:
    """Return the canonical form of a module.

    Raise UserError if an input stays dynamic, or cannot have the shape given.
    """
    return canonicalise(_fix_inputs(relay.transform.InferType()(module), shapes))


def _fix_inputs(module: tvm.IRModule, shapes: Shapes) -> tvm.IRModule:
    """Return the module with inputs of static shape.

    Relay does not say which dynamic dimensions are equal.
    """
    main = module["main"]
    declared: dict[str, list[Extent]] = {}
    for parameter in main.params:
        kind = parameter.checked_type
        if not isinstance(kind, relay.TensorType):
            raise DialectError(f"input {parameter.name_hint!r} is not a tensor but of type {kind}")
        declared[parameter.name_hint] = [
            int(extent) if isinstance(extent, tvm.tir.IntImm) else None for extent in kind.shape
        ]
    fixed = resolve_shapes(declared, shapes)
    new: Mapping[Any, Any] = {
        parameter: relay.Var(
            parameter.name_hint,
            relay.TensorType(fixed[parameter.name_hint], parameter.checked_type.dtype),
        )
        for parameter in main.params
        if None in declared[parameter.name_hint]
    }
    if not new:
        return module
    parameters = [new.get(parameter, parameter) for parameter in main.params]
    body = relay.bind(main.body, new)
    return with_main(module, relay.Function(parameters, body, None, main.type_params, main.attrs))
