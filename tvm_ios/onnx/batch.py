"""Change the batch size of an ONNX model of fixed shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference

from tvm_ios.errors import UserError


class BatchError(UserError):
    """The error that a model's batch cannot be changed; its text is one sentence that says why."""


def with_batch(model: onnx.ModelProto, batch: int) -> onnx.ModelProto:
    """Return a copy of a model whose inputs have another leading extent.

    Constant targets of reshapes that begin with the old batch begin with the new one. Raises
    BatchError if the inputs have different leading extents, or an operator does not fit the new
    one.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph: Any = changed.graph
    weights = {initializer.name: initializer for initializer in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    # A scalar has no batch, and stays.
    inputs = [value for value in inputs if value.type.tensor_type.shape.dim]
    if not inputs:
        raise BatchError(f"{graph.name} has no input with a leading extent to change")
    extents = {v.type.tensor_type.shape.dim[0].dim_value for v in inputs}
    if len(extents) != 1:
        raise BatchError(f"{graph.name} has inputs of different batches: {sorted(extents)}")
    (old,) = extents
    if old == batch:
        return changed
    for value in inputs:
        value.type.tensor_type.shape.dim[0].dim_value = batch
    for node in graph.node:
        # Before opset 5 the target is an attribute, and shape inference says if it does not fit.
        if node.op_type == "Reshape" and len(node.input) > 1 and node.input[1] in weights:
            target = weights[node.input[1]]
            shape = numpy_helper.to_array(target).copy()
            if shape.size and shape[0] == old:
                shape[0] = batch
                target.CopyFrom(numpy_helper.from_array(np.asarray(shape), target.name))
    del graph.value_info[:]
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        return shape_inference.infer_shapes(changed, check_type=True, strict_mode=True)
    except shape_inference.InferenceError as error:
        reason = str(error).partition("\n")[0]
        raise BatchError(f"{graph.name} has no batch of {batch}: {reason}") from error
