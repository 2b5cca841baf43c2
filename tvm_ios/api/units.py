"""Models as graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm_ios.models import load as models
from tvm_ios.models.load import Shapes, form_of, load_graph

if TYPE_CHECKING:
    from relay_passes.prepared import Prepared
    from tvm_ios.graph.op_graph import OpGraph


def load_units(
    model: str,
    *,
    random_weights: int | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    dialect: str = "relax",
) -> OpGraph:
    """The graph of units of any model; without TVM where the model can be read without it.

    Parameters
    ----------
    model
        A zoo name or a file.
    random_weights
        Seed of the weights that replace constant-valued ones, or None to keep them.
    shapes
        Of inputs with dynamic dimensions.
    batch
        Another leading extent of all inputs, of ONNX models.
    dialect
        With ``relay`` it is read from the module that TVM's importer for Relay makes.

    Raises
    ------
    UserError
        If the model cannot be read, one sentence says why.
    """
    if dialect == "relax" and not form_of(model).needs_tvm:
        return load_graph(model, random_weights, shapes, batch)
    return _prepared(model, random_weights, shapes, batch, dialect).units


def load_operators(
    model: str,
    *,
    random_weights: int | None = None,
    shapes: Shapes | None = None,
    batch: int | None = None,
    dialect: str = "relax",
) -> OpGraph:
    """The graph of operators of any model, before units are formed; else as :func:`load_units`."""
    if dialect == "relax" and not form_of(model).needs_tvm:
        return models.load_operators(model, random_weights, shapes, batch)
    return _prepared(model, random_weights, shapes, batch, dialect).outliner.extraction.graph


def _prepared(
    model: str,
    random_weights: int | None,
    shapes: Shapes | None,
    batch: int | None,
    dialect: str,
) -> Prepared:
    from relay_passes.load import load_model
    from relay_passes.prepare import prepare

    loaded = load_model(
        model, random_weights=random_weights, shapes=shapes, batch=batch, dialect=dialect
    )
    return prepare(loaded.module, loaded.name)
