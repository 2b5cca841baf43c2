"""Which model it is, whatever its batch and its shapes."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from tvm_ios.files.digest import file_digest
from tvm_ios.models.load import read_model
from tvm_ios.models.source import AnyModel, Form, ModelSource


def model_identity(model: AnyModel) -> str:
    """SHA-256 of a model as it is written, weights included; its name is decoration.

    Raises
    ------
    ModelError
        If there is no such model.
    OSError
        If it cannot be read.
    """
    source = ModelSource.of(model)
    if source.is_onnx and source.form is not Form.TORCH:
        proto = read_model(replace(source, batch=None))
        proto.graph.name = ""
        return hashlib.sha256(proto.SerializeToString(deterministic=True)).hexdigest()
    return file_digest(source.path)
