"""Bring an ONNX model to the form that is scheduled: folded, static, one operator one meaning."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as passes
from onnxscript import optimizer
from onnxscript.rewriter import rewrite
from onnxscript.rewriter.rules.common import fuse_pad_into_conv_rule

from tvm_ios.errors import UserError
from tvm_ios.graph.input_shapes import Extent, resolve_shapes
from tvm_ios.graph.op_graph import GraphError
from tvm_ios.onnx.affine import fold_affine
from tvm_ios.onnx.edit import (
    bypass,
    constant,
    drop_unused_initializers,
    free_weights_from_inputs,
    new_constant,
)
from tvm_ios.onnx.einsum import expand_einsum
from tvm_ios.onnx.expand import expand_hard_activation, slice_of_one_index, softmax_of_one_axis
from tvm_ios.onnx.functions import write_functions_out
from tvm_ios.onnx.layer_norm import OPSET as LAYER_NORM_OPSET
from tvm_ios.onnx.layer_norm import fuse_layer_norms
from tvm_ios.onnx.misread import write_plainly
from tvm_ios.onnx.pads import explicit_pads, gather_what_pads_copy
from tvm_ios.onnx.recurrent import unroll_recurrent
from tvm_ios.onnx.resize import explicit_sizes, modernise_resizes
from tvm_ios.onnx.steps import Steps

P = ParamSpec("P")
R = TypeVar("R")

#: The library's own types are incomplete.
_optimizer: Any = optimizer

#: Folding is for shapes and weights; it must not stop at the size of a real weight.
_NO_LIMIT = 1 << 40


def _one_error(simplify: Callable[P, R]) -> Callable[P, R]:
    """Make one sentence of whatever the libraries raise about a damaged model."""

    @functools.wraps(simplify)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return simplify(*args, **kwargs)
        except UserError:
            raise
        except Exception as error:
            cause: BaseException = error
            while cause.__cause__ is not None:
                cause = cause.__cause__
            text = str(cause).strip().partition("\n")[0] or repr(cause)
            raise GraphError(f"the ONNX model cannot be simplified: {text}") from error

    return wrapped


@_one_error
def simplify(model: Any, shapes: Mapping[str, Sequence[int]] | None = None) -> Any:
    """Simplify a model without changing what it computes.

    Shapes are inferred, constants folded, ``BatchNormalization`` and other per-channel
    arithmetic folded into convolutions (also through a ``Concat`` of convolutions), ``Dropout``,
    ``Identity`` and reshapes to the same shape removed, a ``Sum`` of many turned into a chain of
    ``Add``, hard activations written out, ``Resize`` given sizes, a ``Pad`` that copies elements
    made gathers, ``Gemm`` brought to ``alpha = beta = 1`` with an untransposed constant,
    ``auto_pad`` made explicit, operators that ONNX defines by others written out, recurrent layers
    unrolled, ``Einsum`` made matrix products, layer norms that are spelled out made one operator, a
    ``Softmax`` from before opset 13 given two dimensions, and what is not used dropped. Equal
    operators stay separate.

    Parameters
    ----------
    model
        An ``onnx.ModelProto``; it is not changed.
    shapes
        Of inputs with dynamic dimensions.

    Returns
    -------
    onnx.ModelProto
        All weights are initializers and no initializer is an input.

    Raises
    ------
    InputShapeError
        If an input has a dynamic dimension, or the shapes are not those of its inputs.
    GraphError
        If a ``Resize`` is one that would be read wrongly, or a recurrent layer cannot be unrolled.
    """
    work: Any = ir.serde.deserialize_model(write_functions_out(modernise_resizes(model)))
    graph: Any = work.graph
    # Before version 4 every initializer had to be an input.
    work.ir_version = max(work.ir_version, 4)
    free_weights_from_inputs(graph)
    _fix_inputs(graph, shapes or {})
    work = passes.InlinePass()(work).model
    graph = work.graph
    passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(work)
    _optimizer.fold_constants(
        work,
        onnx_shape_inference=True,
        input_size_limit=_NO_LIMIT,
        output_size_limit=_NO_LIMIT,
        should_fold=_is_worth_folding,
    )
    passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(work)
    passes.NameFixPass()(work)
    opset = work.opset_imports.get("", 0)
    for node in list(graph):
        write_plainly(graph, node, opset)
        unroll_recurrent(graph, node, opset)
        expand_einsum(graph, node, opset)
    passes.NameFixPass()(work)
    passes.ShapeInferencePass(check_type=False, strict_mode=False)(work)
    for node in list(graph):
        explicit_pads(node)
    if opset >= 11:  # before, pads were an attribute, which it does not know
        rewrite(work, [fuse_pad_into_conv_rule])
    passes.NameFixPass()(work)
    for node in list(graph):
        _remove_if_nothing(graph, node)
    factored: dict[_Factored, Any] = {}
    for node in list(graph):
        expand_hard_activation(graph, node, opset)
        explicit_sizes(graph, node, opset)
        _binary_sums(graph, node, opset)
        _canonical_gemm(graph, node, factored)
        slice_of_one_index(graph, node, opset)
        gather_what_pads_copy(graph, node, opset)
        softmax_of_one_axis(graph, node, opset)
    if opset >= 13 and fuse_layer_norms(graph):
        work.opset_imports[""] = max(opset, LAYER_NORM_OPSET)
    _matmul_bias_to_gemm(graph)
    fold_affine(graph)
    passes.RemoveUnusedNodesPass()(work)
    passes.NameFixPass()(work)
    drop_unused_initializers(graph)
    # Folding can have broken the order of value_info, and shapes past a rewrite are still unknown.
    passes.ShapeInferencePass(check_type=False, strict_mode=False)(work)
    return ir.serde.serialize_model(work)


def _is_worth_folding(node: Any) -> bool | None:
    # Random values are not constants; everything else that reads only constants is one.
    return None if node.op_type.startswith("Random") or node.op_type == "Multinomial" else True


def _fix_inputs(graph: Any, shapes: Mapping[str, Sequence[int]]) -> None:
    declared: dict[str, list[Extent] | None] = {
        value.name: None if value.shape is None else [_extent(extent) for extent in value.shape]
        for value in graph.inputs
    }
    fixed = resolve_shapes(declared, shapes)
    if all(declared[name] == list(shape) for name, shape in fixed.items()):
        return
    for value in graph.inputs:
        value.shape = ir.Shape(fixed[value.name])
    # What was said of the other shapes is inferred anew from these.
    for node in graph:
        for value in node.outputs:
            if value.shape is not None and not value.shape.is_static():
                value.shape = None


def _extent(extent: Any) -> Extent:
    if isinstance(extent, int):
        return extent
    return extent.value if isinstance(extent, ir.SymbolicDim) else None


def _remove_if_nothing(graph: Any, node: Any) -> None:
    """Remove operators that only pass their input on."""
    source = node.inputs[0] if node.inputs else None
    if source is None or node.domain not in ("", "ai.onnx"):
        return
    kind, result = node.op_type, node.outputs[0]
    same_shape = source.shape is not None and source.shape == result.shape
    if kind == "Dropout":
        training = constant(node.inputs[2]) if len(node.inputs) > 2 else None
        mask_is_used = len(node.outputs) > 1 and bool(node.outputs[1].uses())
        nothing = not mask_is_used and (training is None or not training.item())
    elif kind in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand"):
        nothing = same_shape
    elif kind in ("Concat", "Sum", "Max", "Min", "Mean"):
        nothing = len(node.inputs) == 1
    elif kind == "Cast":
        nothing = source.dtype == result.dtype
    elif kind == "Pad":
        pads = constant(node.inputs[1]) if len(node.inputs) > 1 else None
        pads = node.attributes.get_ints("pads", [1]) if pads is None else pads
        nothing = not np.any(pads)
    else:
        nothing = kind == "Identity"
    if nothing:
        bypass(graph, node, source)


def _binary_sums(graph: Any, node: Any, opset: int) -> None:
    if node.op_type != "Sum" or len(node.inputs) < 2:
        return
    steps, result = Steps(graph, node, opset), node.outputs[0]
    # Terms that are broadcast have partial sums of other shapes, which are inferred later.
    like = result if all(term.shape == result.shape for term in node.inputs) else None
    total: Any = node.inputs[0]
    for term in node.inputs[1:]:
        total = steps.op("Add", total, term, like=like)
    steps.stand_for(total)


#: A constant, the number of columns or the transposition that it gets, and its factor.
_Factored = tuple[Any, int, float]


def _canonical_gemm(graph: Any, node: Any, factored: dict[_Factored, Any]) -> None:
    """Gemm with a constant weight: no transposes, no factors, a bias of shape (N,).

    What becomes of a constant is in ``factored``, for the thousand cells that share it.
    """
    weight = constant(node.inputs[1]) if node.op_type == "Gemm" else None
    attributes = node.attributes
    if weight is None or attributes.get_int("transA", 0):
        return
    transposed = attributes.get_int("transB", 0)
    bias = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        if bias is None or (bias.ndim == 2 and bias.shape[0] != 1):
            return
        beta = attributes.get_float("beta", 1.0)
        columns = weight.shape[0 if transposed else 1]
        canonical = np.broadcast_to(bias.reshape(-1), (columns,))
        if beta != 1.0 or bias.shape != canonical.shape:
            key = (node.inputs[2], columns, beta)
            if key not in factored:
                scaled = (canonical * np.float64(beta)).astype(bias.dtype)
                factored[key] = new_constant(graph, f"{node.inputs[2].name}.bias", scaled)
            node.replace_input_with(2, factored[key])
    alpha = attributes.get_float("alpha", 1.0)
    if alpha != 1.0 or transposed:
        key = (node.inputs[1], -transposed, alpha)
        if key not in factored:
            weight = weight.T if transposed else weight
            weight = weight if alpha == 1.0 else (weight * np.float64(alpha)).astype(weight.dtype)
            factored[key] = new_constant(graph, f"{node.inputs[1].name}.kn", weight)
        node.replace_input_with(1, factored[key])
    for name in ("alpha", "beta", "transA", "transB"):
        attributes.pop(name, None)


def _matmul_bias_to_gemm(graph: Any) -> None:
    """A matrix product and the addition of a constant row are one Gemm."""
    for add in list(graph):
        if add.op_type != "Add" or add.inputs[0] is None:
            continue
        for product, row in (tuple(add.inputs), tuple(reversed(add.inputs))):
            matmul, bias = product.producer(), constant(row)
            if matmul is None or matmul.op_type != "MatMul" or bias is None:
                continue
            weight = constant(matmul.inputs[1])
            shape = product.shape
            if weight is None or weight.ndim != 2 or shape is None or len(shape) != 2:
                continue
            if bias.ndim > 2 or bias.size != math.prod(bias.shape[-1:]) or bias.size != shape[1]:
                continue
            if len(product.uses()) != 1 or product.is_graph_output():
                continue
            row = new_constant(graph, f"{row.name}.bias", bias.reshape(-1))
            gemm = ir.node("Gemm", [*matmul.inputs, row], name=matmul.name)
            result = gemm.outputs[0]
            result.name, result.dtype = f"{product.name}.biased", add.outputs[0].dtype
            result.shape = add.outputs[0].shape
            graph.insert_before(add, gemm)
            bypass(graph, add, result)
            graph.remove(matmul, safe=True)
            break
