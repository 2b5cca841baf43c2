"""Check that a model that was cut in two computes the same as the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx

from tvm_ios.contest.outputs import REPORT, VerificationError, Verify, difference
from tvm_ios.contest.tolerance import rounds, tolerance

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel


def require_same_tail(loaded: LoadedModel, verify: Verify) -> None:
    """Require that the tail runs, and that head and tail together compute the whole model.

    ONNX Runtime computes both parts and the whole, or else ``onnx.reference``; if neither can, or
    ``verify`` asks for no comparison with ONNX, the tail is only opened. The program of the head is
    verified elsewhere. Raise VerificationError if outputs differ, UserError if no runtime takes the
    tail.
    """
    from runtime_ext.execution.model_session import random_values
    from runtime_ext.execution.tailed_session import onnx_port, open_tail
    from runtime_ext.verification.not_computed import NotComputed
    from runtime_ext.verification.onnx_outputs import evaluated_outputs, runtime_outputs

    head, whole, tail = loaded.original, loaded.whole, loaded.tail
    assert isinstance(head, onnx.ModelProto)
    assert whole is not None
    assert tail is not None
    run_tail = open_tail(tail, 1)
    if verify is not Verify.onnx:
        return
    inputs = random_values([onnx_port(value) for value in head.graph.input])
    for way in (runtime_outputs, evaluated_outputs):
        try:
            (expected, *_), source = way(whole, [inputs])
            (made, *_), _ = way(head, [inputs])
            break
        except NotComputed:
            continue
    else:
        return
    names = [value.name for value in head.graph.output]
    values = {**inputs, **dict(zip(names, made, strict=True))}
    outputs = run_tail({name: values[name] for name in tail.reads})
    assert loaded.onnx is not None
    quantised = rounds(node.op_type.lower() for node in loaded.onnx.graph.node)
    limit = tolerance("float32", expected, quantised=quantised)
    if how := difference([np.asarray(output) for output in outputs], expected, limit):
        raise VerificationError(
            f"cut before its tail, {loaded.name} differs from the result of {source} {how}{REPORT}"
        )
