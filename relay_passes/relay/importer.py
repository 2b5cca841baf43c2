"""ONNX models as canonical Relay modules."""

from __future__ import annotations

import contextlib
import io
import json
import warnings

import onnx
import tvm
from tvm import relay

from relay_passes.dialect import DialectError
from relay_passes.node_names import node_names
from relay_passes.relay.canonical.canonicalise import canonicalise
from relay_passes.relay.frontend import visiting_once
from relay_passes.relay.plain_onnx import written_plainly
from runtime_ext.ir_form import NODE_NAMES, OUTPUT_NAMES
from tvm_ios.onnx.file import input_shapes


def import_onnx(model: onnx.ModelProto) -> tvm.IRModule:
    """A canonical Relay module of a simplified model, weights as constants.

    Parameters
    ----------
    model
        What :func:`tvm_ios.onnx.simplify.simplify` returned.

    Raises
    ------
    DialectError
        If TVM's importer does not support the model; the sentence says why.
    """
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        visiting_once(),
    ):
        warnings.simplefilter("ignore")
        try:
            module, _ = relay.frontend.from_onnx(
                written_plainly(model), input_shapes(model), freeze_params=True
            )
        except Exception as error:
            reason = " ".join(str(error).strip().split("\n")[-1].split()) or repr(error)
            raise DialectError(
                f"the ONNX importer of TVM {tvm.__version__} refuses {model.graph.name} "
                f"({reason}): export the model with another opset, or without that operator"
            ) from error
    outputs = json.dumps([output.name for output in model.graph.output])
    attributes = {OUTPUT_NAMES: outputs, NODE_NAMES: node_names(model)}
    for name, text in attributes.items():
        module = module.with_attr(name, tvm.runtime.String(text))
    return canonicalise(module)
