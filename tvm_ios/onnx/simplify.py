"""Simplify ONNX models: static shapes, folded constants, one spelling per operation.

Before these steps a model was read (:mod:`tvm_ios.onnx.file`) and given its batch
(:mod:`tvm_ios.onnx.batch`); after them it is scheduled, or refused (:mod:`tvm_ios.onnx.supported`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import onnx_ir as ir
from onnx_ir.passes import common as passes
from onnxscript import optimizer
from onnxscript.rewriter import rewrite
from onnxscript.rewriter.rules.common import fuse_pad_into_conv_rule

from tvm_ios.errors import UserError, first_cause
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import free_weights_from_inputs
from tvm_ios.onnx.rewrites.affine import fold_affine
from tvm_ios.onnx.rewrites.ceil_mode import (
    leave_out_windows_of_padding,
    require_no_windows_of_padding,
)
from tvm_ios.onnx.rewrites.control.compress import gather_what_is_kept
from tvm_ios.onnx.rewrites.control.control_flow import write_control_flow_out
from tvm_ios.onnx.rewrites.control.sequences import write_sequences_out
from tvm_ios.onnx.rewrites.einsum import expand_einsum
from tvm_ios.onnx.rewrites.empty import drop_empty, make_empty_constant
from tvm_ios.onnx.rewrites.expand import (
    binary_sums,
    concat_in_parts,
    expand_hard_activation,
    extreme_in_parts,
    scatter_of_rows,
    slice_of_one_index,
    softmax_of_one_axis,
)
from tvm_ios.onnx.rewrites.fix_inputs import fix_inputs
from tvm_ios.onnx.rewrites.float16 import compute_in_float32
from tvm_ios.onnx.rewrites.functions import write_functions_out
from tvm_ios.onnx.rewrites.gemm import canonical_gemms, matmul_bias_to_gemm
from tvm_ios.onnx.rewrites.group_norm import write_group_norms_out
from tvm_ios.onnx.rewrites.layer_norm import OPSET as LAYER_NORM_OPSET
from tvm_ios.onnx.rewrites.layer_norm import fuse_layer_norms
from tvm_ios.onnx.rewrites.modernise import modernise
from tvm_ios.onnx.rewrites.node_names import name_by_type
from tvm_ios.onnx.rewrites.one_row import one_row_images
from tvm_ios.onnx.rewrites.other_domains.packed import stays_packed
from tvm_ios.onnx.rewrites.other_domains.registry import with_wanted_opset, write_other_domains_out
from tvm_ios.onnx.rewrites.pads import explicit_pads, gather_what_pads_copy, join_what_pads_copy
from tvm_ios.onnx.rewrites.pass_through import remove_if_always_nothing, remove_if_nothing
from tvm_ios.onnx.rewrites.plainly.registry import write_plainly
from tvm_ios.onnx.rewrites.quantised.operators import PRODUCTS, write_quantised
from tvm_ios.onnx.rewrites.random import RANDOM, leave_out_random
from tvm_ios.onnx.rewrites.recurrence.cells import unroll_recurrent
from tvm_ios.onnx.rewrites.recurrence.loops import loop_recurrent, with_functions
from tvm_ios.onnx.rewrites.resize import explicit_sizes
from tvm_ios.onnx.rewrites.split_constants import split_constants
from tvm_ios.onnx.shape_inference import infer_shapes
from tvm_ios.onnx.tail import CONTROL_FLOW, Tail, cut_tail
from tvm_ios.onnx.tolerated import normalised
from tvm_ios.onnx.weights_want import require_fitting

#: Operators that hold graphs, and that read what holds tensors.
_HOLD_OTHERS = frozenset(
    {
        *CONTROL_FLOW,
        *("ConcatFromSequence", "SequenceAt", "SequenceLength"),
        *("OptionalGetElement", "OptionalHasElement"),
    }
)

#: Changes a model in place.
ModelStep = Callable[[Any], object]

#: Changes an operator of a graph in place, as its opset allows.
NodeStep = Callable[[Any, Any, int], None]

#: The library's own types are incomplete.
_optimizer: Any = optimizer

#: Folding is for shapes and weights; it must not stop at the size of a real weight.
_NO_LIMIT = 1 << 40


def simplify(
    model: Any,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    cells: bool = False,
    is_open: bool = False,
    keep_shaped: bool = False,
) -> Any:
    """Return the model simplified by all :func:`steps`, which computes the same.

    The ``onnx.ModelProto`` is not changed. ``shapes`` gives the shapes of inputs with dynamic
    dimensions. With ``cells`` every recurrent layer becomes a cell for each step; else those that
    can be are one operator of all steps, which the model defines by ONNX's. With ``is_open`` other
    shapes follow, and pads that copy have no constants of each shape; with ``keep_shaped`` what
    these shapes alone do not need stays: slices and pads that do nothing, and resizes of constants.
    In the result all weights are initializers and no initializer is an input; equal operators stay
    separate. Raise InputShapeError if a shape is missing or does not fit; GraphError if a
    ``Resize`` would be read wrongly, a recurrent layer cannot be unrolled, or the model is damaged.
    """
    with _own_errors():
        work = _folded(model, shapes or {}, cells=cells, keep_shaped=keep_shaped)
        for step in steps(cells=cells, is_open=is_open, keep_shaped=keep_shaped):
            step(work)
        if shapes:
            _infer_outputs_anew(work)
        return ir.serde.serialize_model(work)


def before_tail(
    model: Any, shapes: Mapping[str, Sequence[int]] | None = None
) -> tuple[Any, Tail] | None:
    """Cut off the end of a model whose shapes depend on the data; None if there is none.

    Return the part before it, static and with constants folded but not simplified, and the tail.
    Arguments and errors are those of :func:`simplify`; also raises GraphError if less than half of
    the work comes before the tail.
    """
    with _own_errors():
        work = _folded(model, shapes or {}, cells=True)
        infer_shapes(work)
        tail = cut_tail(work)
        if tail is None:
            return None
        passes.RemoveUnusedNodesPass()(work)
        return ir.serde.serialize_model(work), tail


@contextmanager
def _own_errors() -> Generator[None, None, None]:
    """Raise GraphError for whatever the libraries raise about a damaged model."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = first_cause(error)
        raise GraphError(f"the ONNX model cannot be simplified: {reason}") from error


def _folded(
    model: Any, shapes: Mapping[str, Sequence[int]], *, cells: bool, keep_shaped: bool = False
) -> Any:
    """Return a folded ``onnx_ir`` model of static inputs, without functions and control flow."""
    fold = partial(_fold_constants, resizes=not keep_shaped)
    # Newer opsets' resizes and slices, and operators that ONNX defines by others written out.
    model = write_group_norms_out(with_wanted_opset(modernise(normalised(model))))
    work: Any = ir.serde.deserialize_model(write_functions_out(model))
    # The domain of ONNX's own operators has two names, and steps ask for the opset by one.
    if (opset := work.opset_imports.pop("ai.onnx", None)) is not None:
        work.opset_imports[""] = opset
    # Before version 4 every initializer had to be an input.
    work.ir_version = max(work.ir_version, 4)
    free_weights_from_inputs(work.graph)
    fix_inputs(work.graph, shapes)
    work = passes.InlinePass()(work).model
    write_other_domains_out(work, fold, cells=cells)
    with_functions(work)
    # Before shapes are folded: those after such a pool would be wrong.
    leave_out_windows_of_padding(work)
    if _unroll(work, fold):
        # Operators that ONNX defines by others were in the bodies, too.
        work = ir.serde.deserialize_model(write_functions_out(ir.serde.serialize_model(work)))
    lift_constants = passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)
    for step in (lift_constants, fold, partial(_fold_empty, fold=fold), lift_constants, _name_all):
        step(work)
    # Quantised values as floats; what held them in eight bits may be needed no more.
    _each(gather_what_is_kept, leave_out_random, write_quantised)(work)
    passes.RemoveUnusedNodesPass()(work)
    _name_all(work)
    require_no_windows_of_padding(work.graph)
    require_fitting(work.graph)
    return work


def _unroll(model: Any, fold: ModelStep) -> bool:
    """Replace control flow and sequences of known content; return whether there were any.

    It iterates, for inner constructs may become known when outer ones are written out and folded.
    """
    lift_constants = passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)
    unrolled = False
    while {node.op_type for node in model.graph} & _HOLD_OTHERS:
        # Folding comes last: of some sequences it makes operators that no opset has.
        for step in (_name_all, infer_shapes, lift_constants):
            step(model)
        written = write_sequences_out(model.graph, _opset(model))
        written |= write_control_flow_out(model.graph, _opset(model))
        unrolled |= written
        before = [node.name for node in model.graph]
        for step in (
            *(passes.RemoveUnusedNodesPass(), _name_all, lift_constants),
            *(leave_out_windows_of_padding, fold),
        ):
            step(model)
        if not written and [node.name for node in model.graph] == before:
            break
    return unrolled


def steps(
    *, cells: bool = False, is_open: bool = False, keep_shaped: bool = False
) -> tuple[ModelStep, ...]:
    """Return the steps that simplify a model whose constants are folded, in order."""
    return (
        compute_in_float32,
        _name_all,
        # One operator one meaning: what TVM misreads, recurrent layers, sums of products.
        _each(write_plainly, unroll_recurrent if cells else loop_recurrent, expand_einsum),
        with_functions,
        _name_all,
        infer_shapes,
        # Paddings: as numbers, and inside the convolutions that they stand before.
        _each(explicit_pads),
        *(() if keep_shaped else (_fuse_pads, _name_all)),
        # Operators that pass their input on.
        _each(remove_if_always_nothing if keep_shaped else remove_if_nothing),
        # 1-D convolutions and pools as those of images of one row.
        one_row_images,
        # Other spellings of operators that have kernels.
        _each(
            expand_hard_activation,
            explicit_sizes,
            binary_sums,
            concat_in_parts,
            scatter_of_rows,
            slice_of_one_index,
            join_what_pads_copy if is_open else gather_what_pads_copy,
            softmax_of_one_axis,
            *(() if is_open else (extreme_in_parts,)),
        ),
        _on_graph(canonical_gemms),
        _fuse_layer_norms,
        _on_graph(matmul_bias_to_gemm),
        # Batch norms and other arithmetic of channels inside convolutions, also through a Concat.
        _on_graph(fold_affine),
        # Operators and constants that nothing reads.
        passes.RemoveUnusedNodesPass(),
        _name_all,
        # Folding can have broken the order of value_info, and shapes past a rewrite are unknown.
        infer_shapes,
    )


def _infer_outputs_anew(model: Any) -> None:
    """Replace the outputs' declared shapes, which may be of other inputs, by inferred ones."""
    declared = [(value, value.shape) for value in model.graph.outputs if value.producer()]
    for value, _ in declared:
        value.shape = None
    infer_shapes(model)
    for value, shape in declared:
        if value.shape is None or not value.shape.is_static():
            value.shape = shape


def _on_graph(edit: Callable[[Any], object]) -> ModelStep:
    return lambda model: edit(model.graph)


def _each(*node_steps: NodeStep) -> ModelStep:
    """Apply every rewrite to each operator of the original list, in order."""

    def step(model: Any) -> None:
        for node in list(model.graph):
            for node_step in node_steps:
                node_step(model.graph, node, _opset(model))

    return step


def _opset(model: Any) -> int:
    return model.opset_imports.get("", 0)


def _fold_constants(model: Any, *, resizes: bool = True) -> None:
    def is_worth_folding(node: Any) -> bool | None:
        return _is_worth_folding(node) if resizes or node.op_type != "Resize" else False

    unfolded = True
    while unfolded:
        _optimizer.fold_constants(
            model,
            onnx_shape_inference=True,
            input_size_limit=_NO_LIMIT,
            output_size_limit=_NO_LIMIT,
            should_fold=is_worth_folding,
        )
        # Readers of the folded parts may be foldable, too.
        unfolded = split_constants(model.graph, _opset(model))


def _fold_empty(model: Any, fold: ModelStep) -> None:
    """Replace tensors without elements and fold constants, until nothing changes."""
    while make_empty_constant(model.graph):
        _each(drop_empty)(model)
        fold(model)
    _each(drop_empty)(model)


def _name_all(work: Any) -> None:
    name_by_type(work.graph)
    passes.NameFixPass()(work)


def _is_worth_folding(node: Any) -> bool | None:
    if stays_packed(node):
        return False
    # A sequence is no constant.
    if node.op_type.startswith(("Sequence", "SplitToSequence", "Optional")):
        return False
    # Products keep their weights as integers; :func:`write_quantised` folds what else it writes.
    if node.op_type == "DequantizeLinear" and any(
        use.node.op_type in PRODUCTS for output in node.outputs for use in output.uses()
    ):
        return False
    # Random values are not constants; everything else that reads only constants is one.
    return None if node.op_type in RANDOM else True


def _fuse_pads(model: Any) -> None:
    if _opset(model) >= 11:  # before, pads were an attribute, which the rule does not know
        rewrite(model, [fuse_pad_into_conv_rule])


def _fuse_layer_norms(model: Any) -> None:
    """Fuse layer norms that are spelled out, and state the opset that has the operator."""
    if _opset(model) >= 13 and fuse_layer_norms(model.graph):
        model.opset_imports[""] = max(_opset(model), LAYER_NORM_OPSET)
