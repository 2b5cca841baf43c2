"""Models as graphs; without TVM where they can be read without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm_ios.models import load as without_tvm
from tvm_ios.models.source import AnyModel, ModelSource

if TYPE_CHECKING:
    from relay_passes.prepared import Prepared
    from tvm_ios.graph.op_graph import OpGraph
    from tvm_ios.onnx.tail import Tail


def load_units(model: AnyModel) -> OpGraph:
    """The graph of units of any model.

    Raises
    ------
    UserError
        If the model cannot be read, one sentence says why.
    """
    return units_and_tail(model)[0]


def units_and_tail(model: AnyModel) -> tuple[OpGraph, Tail | None]:
    """The graph of units of any model, and what runs after it; as :func:`load_units`."""
    source = ModelSource.of(model)
    if not source.needs_tvm:
        return without_tvm.graph_and_tail(source)
    prepared, tail = _prepared(source)
    return prepared.units, tail


def load_operators(model: AnyModel) -> OpGraph:
    """The graph of operators of any model, before units are formed; else as :func:`load_units`."""
    return operators_and_tail(model)[0]


def operators_and_tail(model: AnyModel) -> tuple[OpGraph, Tail | None]:
    """The graph of operators of any model, and what runs after it; as :func:`load_operators`."""
    source = ModelSource.of(model)
    if not source.needs_tvm:
        return without_tvm.operators_and_tail(source)
    prepared, tail = _prepared(source)
    return prepared.outliner.extraction.graph, tail


def _prepared(source: ModelSource) -> tuple[Prepared, Tail | None]:
    from relay_passes.load import load_model
    from relay_passes.pipeline import prepare

    loaded = load_model(source)
    return prepare(loaded.module, loaded.name), loaded.tail
