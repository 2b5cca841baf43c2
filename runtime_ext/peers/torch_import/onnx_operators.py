"""Write ONNX operators that have no canonical kind in torch.

Each function gets the writer and the ONNX node, and returns the node of the result.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx

from runtime_ext.peers.torch_import.writer import UnsupportedOperator, Writer


def _plain(function: Callable[..., Any]) -> Callable[[Writer, Any], fx.Node]:
    """Return a writer of calls of ``function`` with all inputs and no options."""

    def write(w: Writer, node: Any) -> fx.Node:
        return w.call(function, *map(w.node, node.inputs))

    return write


def _folded(function: Callable[..., Any]) -> Callable[[Writer, Any], fx.Node]:
    """Return a writer that folds any number of inputs with a function of two."""

    def write(w: Writer, node: Any) -> fx.Node:
        result = w.node(node.inputs[0])
        for value in node.inputs[1:]:
            result = w.call(function, result, w.node(value))
        return result

    return write


def _reduction(function: Callable[..., Any]) -> Callable[[Writer, Any], fx.Node]:
    def write(w: Writer, node: Any) -> fx.Node:
        axes = node.attributes.get_ints("axes", None)
        if len(node.inputs) > 1 and node.inputs[1] is not None:
            axes = w.array(node.inputs[1]).reshape(-1).tolist()
        if not axes:
            if node.attributes.get_int("noop_with_empty_axes", 0):
                return w.node(node.inputs[0])
            axes = range(len(node.inputs[0].shape))
        keep = bool(node.attributes.get_int("keepdims", 1))
        return w.call(function, w.node(node.inputs[0]), tuple(axes), keepdim=keep)

    return write


def _elu(w: Writer, node: Any) -> fx.Node:
    return w.call(F.elu, w.node(node.inputs[0]), node.attributes.get_float("alpha", 1.0))


def _gelu(w: Writer, node: Any) -> fx.Node:
    mode = node.attributes.get_string("approximate", "none")
    return w.call(F.gelu, w.node(node.inputs[0]), approximate=mode)


def _hard_sigmoid(w: Writer, node: Any) -> fx.Node:
    alpha = node.attributes.get_float("alpha", 0.2)
    beta = node.attributes.get_float("beta", 0.5)
    x = w.node(node.inputs[0])
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:
        return w.call(F.hardsigmoid, x)
    line = w.call(operator.add, w.call(operator.mul, x, alpha), beta)
    return w.call(torch.clamp, line, min=0.0, max=1.0)


def _layer_norm(w: Writer, node: Any) -> fx.Node:
    if sum(bool(value.uses()) for value in node.outputs[1:]):
        raise UnsupportedOperator("its mean and deviation are used")
    data, *weights = node.inputs
    axis = node.attributes.get_int("axis", -1) % len(data.shape)
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    shape = tuple(data.shape)[axis:]
    return w.call(F.layer_norm, w.node(data), shape, *map(w.node, weights), eps=epsilon)


def _batch_norm(w: Writer, node: Any) -> fx.Node:
    data, scale, bias, mean, variance = map(w.node, node.inputs)
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    return w.call(F.batch_norm, data, mean, variance, scale, bias, eps=epsilon)


def _gather(w: Writer, node: Any) -> fx.Node:
    data, indices = map(w.node, node.inputs)
    axis = node.attributes.get_int("axis", 0) % len(node.inputs[0].shape)
    # Indexing and not index_select: it keeps the shape of the indices and takes negative ones.
    return w.call(operator.getitem, data, (*[slice(None)] * axis, indices))


def _expand(w: Writer, node: Any) -> fx.Node:
    return w.call(torch.broadcast_to, w.node(node.inputs[0]), tuple(node.outputs[0].shape))


def _conv_transpose(w: Writer, node: Any) -> fx.Node:
    rank = len(node.inputs[0].shape) - 2
    get = node.attributes.get_ints
    pads = tuple(get("pads", (0,) * 2 * rank))
    if pads[:rank] != pads[rank:] or "output_shape" in node.attributes:
        raise UnsupportedOperator("its padding is not the same on both sides")
    functions = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
    return w.call(
        functions[rank],
        *map(w.node, node.inputs),
        stride=tuple(get("strides", (1,) * rank)),
        padding=pads[:rank],
        output_padding=tuple(get("output_padding", (0,) * rank)),
        groups=node.attributes.get_int("group", 1),
        dilation=tuple(get("dilations", (1,) * rank)),
    )


def _resize(w: Writer, node: Any) -> fx.Node:
    text = node.attributes.get_string
    before, after = tuple(node.inputs[0].shape), tuple(node.outputs[0].shape)
    mode = text("mode", "nearest")
    coordinates = text("coordinate_transformation_mode", "half_pixel")
    if before[:2] != after[:2] or node.attributes.get_int("antialias", 0):
        raise UnsupportedOperator("it does more than change the size of images")
    sizes = after[2:]
    if mode == "nearest":
        # For whole factors all ways to round agree (but those that shift by half a pixel up).
        whole = all(new % old == 0 for old, new in zip(before, after, strict=True))
        rounding = text("nearest_mode", "round_prefer_floor")
        if not whole or (coordinates, rounding) not in (
            ("asymmetric", "floor"),
            ("half_pixel", "round_prefer_floor"),
        ):
            raise UnsupportedOperator(
                f"nearest by {coordinates}, {rounding} is another than torch's"
            )
        return w.call(F.interpolate, w.node(node.inputs[0]), size=sizes, mode="nearest")
    align_corners = {"half_pixel": False, "pytorch_half_pixel": False, "align_corners": True}
    if mode != "linear" or coordinates not in align_corners or len(sizes) != 2:
        raise UnsupportedOperator(f"{mode} by {coordinates} is not known")
    return w.call(
        F.interpolate,
        w.node(node.inputs[0]),
        size=sizes,
        mode="bilinear",
        align_corners=align_corners[coordinates],
    )


def _global_max(w: Writer, node: Any) -> fx.Node:
    axes = tuple(range(2, len(node.inputs[0].shape)))
    return w.call(torch.amax, w.node(node.inputs[0]), axes, keepdim=True)


DIRECT: dict[str, Callable[[Writer, Any], Any]] = {
    "Abs": _plain(torch.abs),
    "BatchNormalization": _batch_norm,
    "ConvTranspose": _conv_transpose,
    "Elu": _elu,
    "Equal": _plain(torch.eq),
    "Erf": _plain(torch.erf),
    "Exp": _plain(torch.exp),
    "Expand": _expand,
    "Gather": _gather,
    "Gelu": _gelu,
    "GlobalMaxPool": _global_max,
    "Greater": _plain(torch.gt),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _plain(F.hardswish),
    "Identity": _plain(torch.Tensor.contiguous),
    "LayerNormalization": _layer_norm,
    "Less": _plain(torch.lt),
    "Log": _plain(torch.log),
    "Max": _folded(torch.maximum),
    "Min": _folded(torch.minimum),
    "Neg": _plain(operator.neg),
    "Not": _plain(torch.logical_not),
    "Pow": _plain(torch.pow),
    "Reciprocal": _plain(torch.reciprocal),
    "ReduceMax": _reduction(torch.amax),
    "ReduceMin": _reduction(torch.amin),
    "ReduceSum": _reduction(torch.sum),
    "Resize": _resize,
    "Softplus": _plain(F.softplus),
    "Sqrt": _plain(torch.sqrt),
    "Sum": _folded(operator.add),
    "Where": _plain(torch.where),
}
