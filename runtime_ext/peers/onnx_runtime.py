"""ONNX Runtime on the CPU, with all its optimisations and its own choice of everything else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime

from runtime_ext.peers.runner import Array, Started
from tvm_ios.errors import UserError


def start(path: Path, inputs: Mapping[str, Array], lanes: int) -> Started:
    """Load an ONNX file."""
    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = lanes
    # Errors only: it warns of what it optimises.
    options.log_severity_level = 3
    try:
        session: Any = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        raise UserError(f"ONNX Runtime refuses the model: {error}") from error
    feeds = dict(inputs)
    return Started(lambda: session.run(None, feeds), list)
