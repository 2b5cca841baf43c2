"""The digest that identifies a model, independent of its batch and shapes."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from tvm_ios.files.digest import file_digest
from tvm_ios.models.load import read_model
from tvm_ios.models.source import AnyModel, Form, ModelSource


def model_identity(model: AnyModel) -> str:
    """Return the SHA-256 of a model as written, weights included, without its name.

    The batch and the shapes that the source asks for do not change it.
    """
    source = ModelSource.of(model)
    if source.is_onnx and source.form is not Form.TORCH:
        proto = read_model(replace(source, batch=None))
        proto.graph.name = ""
        return hashlib.sha256(proto.SerializeToString(deterministic=True)).hexdigest()
    return file_digest(source.path)
