"""Import ONNX models as canonical Relay modules."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from pathlib import Path

import numpy as np
import onnx
import tvm
from onnx import helper
from tvm import relay

from relay_passes.dialect import DialectError
from relay_passes.ir_dump import IMPORTED, write_ir
from relay_passes.node_names import node_names
from relay_passes.relay.canonical.canonicalise import canonicalise
from relay_passes.relay.frontend import visiting_once
from relay_passes.relay.plain_onnx import written_plainly
from relay_passes.relay.rewritten_onnx import rewritten
from runtime_ext.ir_form import NODE_NAMES, OUTPUT_NAMES
from runtime_ext.relay.factory import last_line
from tvm_ios.errors import UserError
from tvm_ios.onnx.file import input_shapes

#: The element types of ONNX that the importer has, by their names in TVM.
_TYPES = {
    helper.np_dtype_to_tensor_dtype(np.dtype(name)): name
    for name in (
        *("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
    )
}


def import_onnx(model: onnx.ModelProto, dump_ir: Path | None = None) -> tvm.IRModule:
    """Convert a simplified model to a canonical Relay module with weights as constants.

    The module before it is canonicalised is written into the folder ``dump_ir``, if there is one.

    Raise DialectError if TVM's importer does not support the model or misreads it.
    """
    _require_readable_types(model)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        visiting_once(),
    ):
        warnings.simplefilter("ignore")
        try:
            module, _ = relay.frontend.from_onnx(
                written_plainly(rewritten(model)), input_shapes(model), freeze_params=True
            )
            write_ir(dump_ir, IMPORTED, module)
            module = canonicalise(module)
        except (UserError, OSError):
            raise
        except Exception as error:
            raise DialectError(
                f"the ONNX importer of TVM {tvm.__version__} refuses {model.graph.name} "
                f"({last_line(error)}): export the model with another opset, or without that "
                "operator"
            ) from error
    _require_declared_outputs(model, module)
    outputs = json.dumps([output.name for output in model.graph.output])
    attributes = {OUTPUT_NAMES: outputs, NODE_NAMES: node_names(model)}
    for name, text in attributes.items():
        module = module.with_attr(name, tvm.runtime.String(text))
    return module


def _require_readable_types(model: onnx.ModelProto) -> None:
    """Raise DialectError for a type that the importer would read as another (UINT4 as uint8)."""
    graph = model.graph
    values = (*graph.input, *graph.value_info, *graph.output)
    types = [(value.name, value.type.tensor_type.elem_type) for value in values]
    for name, number in (
        *types,
        *((tensor.name, tensor.data_type) for tensor in graph.initializer),
    ):
        if number not in _TYPES:
            raise DialectError(
                f"value {name!r} of {graph.name} is of type "
                f"{onnx.TensorProto.DataType.Name(number)}, which TVM {tvm.__version__} does not "
                "read: export the model with another one"
            )


def _require_declared_outputs(model: onnx.ModelProto, module: tvm.IRModule) -> None:
    """Raise DialectError if an output's shape or type is not as declared: something was misread."""
    returned = module["main"].checked_type.ret_type
    types = returned.fields if isinstance(returned, tvm.ir.TupleType) else [returned]
    for output, made in zip(model.graph.output, types, strict=True):
        declared = output.type.tensor_type
        extents = [dim.dim_value for dim in declared.shape.dim]
        shape = [int(extent) for extent in made.shape if isinstance(extent, tvm.tir.IntImm)]
        is_dynamic = len(shape) < len(made.shape)
        if made.dtype != _TYPES[declared.elem_type] or not (is_dynamic or shape == extents):
            raise DialectError(
                f"TVM {tvm.__version__} makes output {output.name!r} of {model.graph.name} one of "
                f"shape {shape} and type {made.dtype}, where ONNX has {extents} and "
                f"{_TYPES[declared.elem_type]}: export the model without the operator that makes it"
            )
