"""ONNX models as canonical Relay modules."""

from __future__ import annotations

import contextlib
import io
import json
import warnings

import numpy as np
import onnx
import onnx.numpy_helper
import tvm
from tvm import relay

from relay_passes.dialect import DialectError
from relay_passes.relay.canonicalise import canonicalise
from relay_passes.relay.frontend import visiting_once
from runtime_ext.ir_form import OUTPUT_NAMES


def import_onnx(model: onnx.ModelProto) -> tvm.IRModule:
    """A canonical Relay module of a simplified model, weights as constants.

    Parameters
    ----------
    model
        What :func:`tvm_ios.onnx_simplify.simplify` returned.

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
            module, _ = relay.frontend.from_onnx(_with_both_bounds(model), freeze_params=True)
        except Exception as error:
            reason = " ".join(str(error).strip().split("\n")[-1].split()) or repr(error)
            raise DialectError(
                f"the ONNX importer of TVM {tvm.__version__} refuses {model.graph.name} "
                f"({reason}): export the model with another opset, or without that operator"
            ) from error
    names = tvm.runtime.String(json.dumps([output.name for output in model.graph.output]))
    return canonicalise(module.with_attr(OUTPUT_NAMES, names))


def _with_both_bounds(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with both bounds given to each Clip: the importer forgets one that stands alone."""
    known = {tensor.name: tensor for tensor in model.graph.initializer}
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for number, node in enumerate(made.graph.node):
        bounds = [*node.input[1:], "", ""][:2]
        given = [known[bound] for bound in bounds if bound in known]
        if node.op_type != "Clip" or len(given) != 1 or sum(map(bool, bounds)) != 1:
            continue
        bound = onnx.numpy_helper.to_array(given[0])
        limits = np.finfo(bound.dtype) if bound.dtype.kind == "f" else np.iinfo(bound.dtype)
        for place, limit in enumerate((limits.min, limits.max)):
            if not bounds[place]:
                bounds[place] = f"clip{number}.limit"
                made.graph.initializer.append(
                    onnx.numpy_helper.from_array(np.array(limit, bound.dtype), bounds[place])
                )
        node.input[1:] = bounds
    return made
