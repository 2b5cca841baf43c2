"""ONNX models as canonical Relax modules."""

from __future__ import annotations

import contextlib
import io
import json
import traceback
import warnings

import onnx
import tvm
from tvm.relax.frontend.onnx import from_onnx

from relay_passes.relax.bindings import DialectError
from relay_passes.relax.canonicalise import canonicalise
from runtime_ext.scheduled_module import OUTPUT_NAMES


def import_onnx(model: onnx.ModelProto) -> tvm.IRModule:
    """A canonical Relax module of a simplified model, weights as constants.

    Parameters
    ----------
    model
        What :func:`tvm_ios.onnx_simplify.simplify` returned.

    Raises
    ------
    DialectError
        If TVM's importer does not support the model.
    """
    # The importer prints what it fails at, to where a command's result goes.
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        # It also checks models strictly and only warns; the simplifier has checked already.
        warnings.simplefilter("ignore")
        try:
            module = from_onnx(model, keep_params_in_input=False)
        except Exception as error:
            # TVM complains about what it had begun when that goes: now, not after our sentence.
            traceback.clear_frames(error.__traceback__)
            reason = str(error).strip().splitlines()[-1] if str(error).strip() else repr(error)
            raise DialectError(
                f"TVM's ONNX importer refuses {model.graph.name}: {reason}"
            ) from error
    names = [output.name for output in model.graph.output]
    return canonicalise(module.with_attr(OUTPUT_NAMES, json.dumps(names)))
