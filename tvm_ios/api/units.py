"""Models as graphs of operators and units, read without TVM if possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm_ios.graph.units import form_units
from tvm_ios.models import load as without_tvm
from tvm_ios.models.source import AnyModel, Form, ModelSource

if TYPE_CHECKING:
    from relay_passes.prepared import Prepared
    from tvm_ios.graph.op_graph import OpGraph
    from tvm_ios.onnx.tail import Tail
    from tvm_ios.policies.policy import Problem


def load_units(model: AnyModel) -> OpGraph:
    """Return the graph of units of any model.

    Raises
    ------
    UserError
        If the model cannot be read; one sentence says why.
    """
    return units_and_tail(model)[0]


def units_and_tail(model: AnyModel) -> tuple[OpGraph, Tail | None]:
    """Return the graph of units of any model, and its tail; raises as :func:`load_units`."""
    source = ModelSource.of(model)
    if not source.needs_tvm:
        return without_tvm.graph_and_tail(source)
    prepared, tail = _prepared(source)
    return prepared.units, tail


def load_operators(model: AnyModel) -> OpGraph:
    """Return the graph of operators of any model, before units are formed."""
    return operators_and_tail(model)[0]


def operators_and_tail(model: AnyModel) -> tuple[OpGraph, Tail | None]:
    """Return the graph of operators of any model, and its tail."""
    source = ModelSource.of(model)
    if not source.needs_tvm:
        return without_tvm.operators_and_tail(source)
    prepared, tail = _prepared(source)
    return prepared.outliner.extraction.graph, tail


def problem_and_tail(model: AnyModel, max_block: int) -> tuple[Problem, Tail | None]:
    """Return the scheduling problem of any model, and its tail.

    Its blocks have at most ``max_block`` units.
    """
    from tvm_ios.policies.policy import Problem

    source = ModelSource.of(model)
    if source.form is Form.GRAPH:
        # The file does not say which operators its units consist of.
        return Problem.of(load_units(source), max_block), None
    if source.needs_tvm:
        prepared, tail = _prepared(source)
        operators = prepared.outliner.extraction.graph
        return Problem.of(prepared.units, max_block, operators), tail
    operators, tail = without_tvm.operators_and_tail(source)
    return Problem.of(form_units(operators), max_block, operators), tail


def _prepared(source: ModelSource) -> tuple[Prepared, Tail | None]:
    from relay_passes.load import load_model

    loaded = load_model(source)
    return loaded.prepared(), loaded.tail
