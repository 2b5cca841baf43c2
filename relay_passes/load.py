"""Models as a user names them, as canonical TVM modules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx
import tvm

from relay_passes.relax.importer import import_onnx
from tvm_ios.models import load_onnx


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that was read.

    Attributes
    ----------
    name
        The zoo's, or the file's without its suffix.
    module
        Canonical, weights as constants.
    onnx
        The simplified ONNX model, where it was read from one.
    """

    name: str
    module: tvm.IRModule
    onnx: onnx.ModelProto | None


def load_model(model: str, *, random_weights: int | None = None) -> LoadedModel:
    """Read a zoo network or a file.

    Parameters
    ----------
    model
        Zoo name or path.
    random_weights
        Seed of the weights that replace constant-valued ones, or None to keep them.

    Raises
    ------
    UserError
        If there is no such model or it cannot be scheduled; one sentence says why.
    """
    proto = load_onnx(model, random_weights)
    name = Path(model).stem if model.endswith(".onnx") else model
    return LoadedModel(name, import_onnx(proto), proto)
