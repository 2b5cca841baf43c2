"""Registry of operators of other domains with rewrites, and their application to a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import onnx
import onnx_ir as ir
from onnx import version_converter
from onnx_ir.passes import common as passes

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.cut import graphs_inside
from tvm_ios.onnx.edit import is_of_onnx, node_text, opset_of
from tvm_ios.onnx.rewrites.other_domains.attention import ATTENTION
from tvm_ios.onnx.rewrites.other_domains.deferred import Deferred
from tvm_ios.onnx.rewrites.other_domains.features import FEATURES
from tvm_ios.onnx.rewrites.other_domains.fused import FUSED
from tvm_ios.onnx.rewrites.other_domains.grouped import GROUPED
from tvm_ios.onnx.rewrites.other_domains.integers import CHANNELS_LAST, INTEGERS
from tvm_ios.onnx.rewrites.other_domains.linear import LINEAR
from tvm_ios.onnx.rewrites.other_domains.normalisations import NORMALISATIONS
from tvm_ios.onnx.rewrites.other_domains.packed import PACKED
from tvm_ios.onnx.rewrites.other_domains.recurrent import LOOPED, RECURRENT
from tvm_ios.onnx.rewrites.quantised.onnxruntime import CONTRIB_DOMAIN
from tvm_ios.onnx.rewrites.steps import Steps
from tvm_ios.onnx.shape_inference import infer_shapes

#: ONNX's domain for classical machine learning.
ML_DOMAIN = "ai.onnx.ml"
#: By domain and name.
_WRITERS: Mapping[str, Mapping[str, Callable[[Steps], None]]] = {
    CONTRIB_DOMAIN: {
        **ATTENTION,
        **CHANNELS_LAST,
        **FUSED,
        **GROUPED,
        **INTEGERS,
        **NORMALISATIONS,
        **PACKED,
        **RECURRENT,
    },
    ML_DOMAIN: {**FEATURES, **LINEAR},
}
#: Operators that ONNX Runtime writes into ONNX's own domain, and the opset that has them there.
_STRAY = {"LayerNormalization": 17, "SimplifiedLayerNormalization": 1 << 30}
#: The opset that has ``LayerNormalization``, and the first that means the same.
_WANTED, _SAME = 17, 13

#: The library's own types are incomplete.
_converter: Any = version_converter


def is_of_other_domain(node: Any, opset: int) -> bool:
    """Return whether :func:`write_other_domains_out` rewrites a node of a file."""
    return _is_stray(node, opset) or node.op_type in _WRITERS.get(node.domain, ())


def _has_strays(model: Any) -> bool:
    """Return whether a model has operators of ONNX Runtime in ONNX's own domain."""
    opset = opset_of(model)
    return any(_is_stray(node, opset) for node in _nodes(model.graph))


def with_strays_named(model: Any) -> Any:
    """Return the model with ONNX Runtime's operators moved from ONNX's domain to their own.

    The ``onnx.ModelProto`` is not changed, and returned itself if it has none.
    """
    if not _has_strays(model):
        return model
    opset = opset_of(model)
    changed: Any = onnx.ModelProto()
    changed.CopyFrom(model)
    for node in _nodes(changed.graph):
        if _is_stray(node, opset):
            node.domain = CONTRIB_DOMAIN
    if all(entry.domain != CONTRIB_DOMAIN for entry in changed.opset_import):
        changed.opset_import.append(onnx.OperatorSetIdProto(domain=CONTRIB_DOMAIN, version=1))
    return changed


def with_wanted_opset(model: Any) -> Any:
    """Return a model with operators of other domains in an opset that has their replacements.

    A model without such operators stays as it is; the ``onnx.ModelProto`` is not changed. Raises
    GraphError if onnx cannot convert it.
    """
    named, opset = with_strays_named(model), opset_of(model)
    own = next(filter(_is_written, _nodes(named.graph)), None)
    if own is None or opset >= _WANTED:
        return named
    changed: Any = onnx.ModelProto()
    changed.CopyFrom(named)
    if opset < _SAME:
        try:
            changed = _converter.convert_version(changed, _SAME)
        except Exception as error:  # the converter's own error types are private
            reason = (str(error).strip().splitlines() or [repr(error)])[0]
            raise GraphError(
                f"{node_text(own)} is of the domain {own.domain!r} in a model of opset {opset}, "
                f"and converting it to opset {_SAME} fails ({reason}): export the model with opset "
                f"{_SAME} or later"
            ) from error
    for entry in changed.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = _WANTED
    return changed


def write_other_domains_out(
    model: Any, fold: Callable[[Any], object], *, cells: bool = True
) -> None:
    """Rewrite operators of other domains with ONNX's, in a model with static inputs.

    ``fold`` folds the model's constants, which some rewrites read. Without ``cells`` recurrent
    layers become operators of all steps, of a domain of our own, where they can. Raise GraphError
    if a node uses a feature that no rewrite covers, or a shape that it needs is unknown.
    """
    folded = False
    while nodes := [n for n in ir.traversal.RecursiveGraphIterator(model.graph) if _is_written(n)]:
        passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
        infer_shapes(model)
        reasons = [_write(node, model.opset_imports.get("", 1), cells) for node in nodes]
        if None in reasons:
            folded = False
        elif folded:
            raise GraphError(
                f"{node_text(nodes[0])} of the domain {nodes[0].domain!r} cannot be written in "
                f"ONNX's operators, since {reasons[0]} is not known: export the model with fixed "
                "shapes and constant weights"
            )
        else:
            fold(model)
            folded = True


def _nodes(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a file's graph and of the graphs inside them."""
    for each in (graph, *graphs_inside(graph)):
        yield from each.node


def _is_stray(node: Any, opset: int) -> bool:
    """Return whether a node is an operator of ONNX Runtime in ONNX's domain."""
    return is_of_onnx(node) and opset < _STRAY.get(node.op_type, 0)


def _is_written(node: Any) -> bool:
    if node.domain == CONTRIB_DOMAIN and node.op_type in CHANNELS_LAST:
        return node.op_type == "QLinearConv" or _states_channels_last(node)
    return node.op_type in _WRITERS.get(node.domain, ())


def _states_channels_last(node: Any) -> bool:
    if isinstance(node, ir.Node):
        return bool(node.attributes.get_int("channels_last", 0))
    return any(a.name == "channels_last" and a.i for a in node.attribute)


def _write(node: Any, opset: int, cells: bool) -> str | None:
    """Rewrite a node of another domain into ONNX's operators, and return None.

    If a type or shape is not inferred yet, leave the node and return what is missing.
    """
    steps, result = Steps(node.graph, node, opset), node.outputs[0]
    try:
        if node.domain == CONTRIB_DOMAIN and result.dtype is None:
            result.dtype = _type_of_result(node)
        write = _WRITERS[node.domain][node.op_type]
        (write if cells else LOOPED.get(node.op_type, write))(steps)
    except Deferred as deferred:
        steps.withdraw()
        return str(deferred)
    return None


def _type_of_result(node: Any) -> Any:
    """Return the result type of an ONNX Runtime operator, which ONNX does not infer."""
    types = [value.dtype for value in node.inputs if value is not None and value.dtype is not None]
    floats = [dtype for dtype in types if dtype.is_floating_point()]
    integers = [dtype for dtype in types if dtype not in floats]
    first, second = (integers, floats) if node.op_type in CHANNELS_LAST else (floats, integers)
    if not types:
        raise Deferred(f"the type of {node.inputs[0].name!r}")
    return (first + second)[0]
