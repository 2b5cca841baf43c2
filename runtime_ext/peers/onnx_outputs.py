"""What an ONNX model computes by ONNX Runtime, independently of TVM."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import onnx

from tvm_ios.files.array_files import Array


def onnx_outputs(model: onnx.ModelProto, inputs: Sequence[Array]) -> tuple[list[Array], str] | None:
    """The outputs of a model as it is written, operator by operator.

    Parameters
    ----------
    model
        As its user wrote it, before it is simplified.
    inputs
        In the order of the model's inputs that are not initializers.

    Returns
    -------
    tuple of list of array and str, or None
        The outputs, and whose they are; None if ONNX Runtime is not installed, or refuses the
        model.
    """
    if find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    options: Any = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    weights = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in weights]
    try:
        session: Any = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        outputs = session.run(None, dict(zip(names, inputs, strict=True)))
    # It raises what it likes about operators that it lacks, and protobuf about 2 GB.
    except Exception:
        return None
    return list(outputs), f"ONNX Runtime {onnxruntime.__version__}"
