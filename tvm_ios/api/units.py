"""Models as graphs; without TVM where they can be read without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm_ios.models import load as without_tvm
from tvm_ios.models.source import AnyModel, ModelSource

if TYPE_CHECKING:
    from relay_passes.prepared import Prepared
    from tvm_ios.graph.op_graph import OpGraph


def load_units(model: AnyModel) -> OpGraph:
    """The graph of units of any model.

    Raises
    ------
    UserError
        If the model cannot be read, one sentence says why.
    """
    source = ModelSource.of(model)
    return _prepared(source).units if source.needs_tvm else without_tvm.load_graph(source)


def load_operators(model: AnyModel) -> OpGraph:
    """The graph of operators of any model, before units are formed; else as :func:`load_units`."""
    source = ModelSource.of(model)
    if source.needs_tvm:
        return _prepared(source).outliner.extraction.graph
    return without_tvm.load_operators(source)


def _prepared(source: ModelSource) -> Prepared:
    from relay_passes.load import load_model
    from relay_passes.pipeline import prepare

    loaded = load_model(source)
    return prepare(loaded.module, loaded.name)
