"""Import ONNX models as canonical Relax modules."""

from __future__ import annotations

import contextlib
import io
import json
import traceback
import warnings
from pathlib import Path
from typing import Any

import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

from relay_passes.dialect import DialectError
from relay_passes.ir_dump import IMPORTED, write_ir
from relay_passes.node_names import node_names
from relay_passes.relax.canonical.canonicalise import canonicalise
from relay_passes.relax.expressions import unprinted
from relay_passes.relax.onnx_converters import converters, more_converters
from runtime_ext.ir_form import NODE_NAMES, OUTPUT_NAMES
from runtime_ext.native_library import load_native_library
from tvm_ios.onnx.edit import node_text, opset_of
from tvm_ios.onnx.file import input_shapes


def import_onnx(
    model: onnx.ModelProto, dump_ir: Path | None = None, *, named: bool = True
) -> tvm.IRModule:
    """Convert a simplified model to a canonical Relax module with weights as constants.

    The module before it is canonicalised is written into the folder ``dump_ir``, if there is one.
    It has the names of the model's nodes if ``named``.

    Raise DialectError, which names the operator or output, if TVM's importer does not support the
    model or misreads it.
    """
    _require_importable(model)
    load_native_library()["drop_compiler_warnings"]()
    said = io.StringIO()
    # The importer prints the operator at which it fails to standard output, like a result.
    with warnings.catch_warnings(), contextlib.redirect_stdout(said), more_converters():
        warnings.simplefilter("ignore")
        try:
            module = _imported(model)
        except Exception as error:
            # TVM warns when unfinished functions are freed: let it do so before our message.
            traceback.clear_frames(error.__traceback__)
            reason = " ".join(str(error).strip().split("\n")[-1].split()) or repr(error)
            raise DialectError(_refusal(model, said.getvalue(), reason)) from error
    names: dict[str, Any] = {OUTPUT_NAMES: json.dumps([o.name for o in model.graph.output])}
    if named:
        names[NODE_NAMES] = unprinted(node_names(model))
    module = module.with_attrs(names)
    write_ir(dump_ir, IMPORTED, module)
    canonical = canonicalise(module)
    _require_declared_outputs(model, canonical)
    return canonical


def _imported(model: onnx.ModelProto) -> tvm.IRModule:
    """Convert a model by TVM's importer, which need not check it again: it copies all weights then.

    Inputs keep their names, also those that are no identifiers.
    """
    importer = ONNXGraphImporter(input_shapes(model), "float32", sanitize=False)
    return importer.from_onnx(model.graph, opset_of(model))


def _require_declared_outputs(model: onnx.ModelProto, module: tvm.IRModule) -> None:
    """Raise DialectError if an output's shape is not as declared: an operator was misread."""
    returned: Any = module["main"].ret_ty
    made = returned.fields if isinstance(returned, relax.TupleType) else [returned]
    for output, kind in zip(model.graph.output, made, strict=True):
        extents = [extent.dim_value for extent in output.type.tensor_type.shape.dim]
        is_static = kind.shape and all(isinstance(e, tvm.tirx.IntImm) for e in kind.shape)
        shape = [int(extent) for extent in kind.shape] if is_static else extents
        if shape != extents:
            raise DialectError(
                f"output {output.name!r} of {model.graph.name} is of shape {shape} as TVM "
                f"{tvm.__version__} reads its operators, and of shape {extents} as the model says: "
                "correct its shape, or export the model without the operator that makes it"
            )


def _require_importable(model: onnx.ModelProto) -> None:
    supported = converters()
    for node in model.graph.node:
        if node.op_type not in supported:
            raise DialectError(
                f"{node_text(node)} of {model.graph.name} is not among those that TVM "
                f"{tvm.__version__} imports from ONNX: export the model "
                "with another opset or without this operator"
            )


def _refusal(model: onnx.ModelProto, said: str, reason: str) -> str:
    """Return the error message for a failed import; ``said`` may name the operator."""
    kind = said.rpartition("Error converting operator ")[2].partition(",")[0] if said else ""
    nodes = [node for node in model.graph.node if node.op_type == kind]
    if not nodes:
        return f"TVM's ONNX importer refuses {model.graph.name}: {reason}"
    others = f" or another {kind}" if len(nodes) > 1 else ""
    return (
        f"{node_text(nodes[0])}{others} of {model.graph.name} is not imported by TVM "
        f"{tvm.__version__} as it stands there ({reason}): export the model with another opset, "
        "or without this operator"
    )
