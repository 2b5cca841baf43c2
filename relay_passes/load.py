"""Models as a user names them, as canonical TVM modules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx
import tvm

from relay_passes.dialect import Dialect, named_dialect
from tvm_ios.models.load import Form, ModelError, Shapes, form_of, load_onnx


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that was read.

    Attributes
    ----------
    dialect
        Of its module.
    name
        The zoo's, or the file's without its suffix.
    module
        Canonical, weights as constants.
    onnx
        The simplified ONNX model, where it was read from one.
    """

    dialect: Dialect
    name: str
    module: tvm.IRModule
    onnx: onnx.ModelProto | None


def load_model(
    model: str,
    *,
    random_weights: int | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    dialect: str = "relax",
) -> LoadedModel:
    """Read a zoo network or a file: ``.onnx``, ``.pt2``, a module saved as ``.json``.

    Parameters
    ----------
    model
        Zoo name or path.
    random_weights
        Seed of the weights that replace constant-valued ones, or None to keep them.
    shapes
        Of inputs with dynamic dimensions.
    batch
        Another leading extent of all inputs, of ONNX models.
    dialect
        Of the module: ``relax`` or ``relay``; only ONNX models can be had in both.

    Raises
    ------
    UserError
        If there is no such model or it cannot be scheduled; one sentence says why.
    """
    form, chosen = form_of(model), named_dialect(dialect)
    if form in (Form.ZOO, Form.ONNX):
        proto = load_onnx(model, random_weights, shapes, batch)
        name = model if form is Form.ZOO else Path(model).stem
        return LoadedModel(chosen, name, chosen.import_onnx(proto), proto)
    if not form.needs_tvm:
        raise ModelError(
            f"{model} is {form.value}, of which nothing can be run or measured: give a model, "
            "or schedule it with --cost DEVICE"
        )
    if form is Form.TORCH and chosen.name != "relax":
        raise ModelError(
            f"{model} is {form.value}, which is read as Relax only: give an .onnx file, or a Relay "
            "module saved by tvm.ir.save_json"
        )
    if random_weights is not None:
        raise ModelError(
            f"{model} is {form.value}: weights are replaced in .onnx files only, so leave out "
            "--random-weights"
        )
    if batch is not None:
        raise ModelError(f"{model} is {form.value}, whose batch is fixed: leave out --batch")
    path = Path(model)
    if form is Form.TORCH:
        from relay_passes.relax.torch_importer import import_torch

        return LoadedModel(chosen, path.stem, import_torch(path, shapes), None)
    from relay_passes.saved_module import load_saved_module

    return LoadedModel(chosen, path.stem, load_saved_module(path, chosen, shapes), None)
