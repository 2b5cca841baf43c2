"""Write operators of the canonical kinds of :mod:`tvm_ios.graph.operators` in torch.

Each function gets the writer, the kind's attributes and its ONNX values, and returns the node of
the result, or a list of them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import fx

from runtime_ext.peers.torch_import.writer import Writer

Attrs = Mapping[str, Any]


def _simple(function: Callable[..., Any], *names: str) -> Callable[..., fx.Node]:
    """Return a writer of calls of ``function``, with options named like attributes."""

    def write(w: Writer, attrs: Attrs, *inputs: Any) -> fx.Node:
        return w.call(function, *map(w.node, inputs), **{name: attrs[name] for name in names})

    return write


def _conv2d(w: Writer, attrs: Attrs, data: Any, weight: Any, bias: Any = None) -> fx.Node:
    x, padding = _padding(w, w.node(data), attrs["pads"], 0.0)
    return w.call(
        F.conv2d,
        x,
        w.node(weight),
        w.node(bias),
        stride=attrs["strides"],
        padding=padding,
        dilation=attrs["dilations"],
        groups=attrs["group"],
    )


def _dense(w: Writer, attrs: Attrs, data: Any, weight: Any, bias: Any = None) -> fx.Node:
    # As torch.nn.Linear keeps it.
    transposed = w.weight(w.array(weight).T)
    return w.call(F.linear, w.node(data), transposed, w.node(bias))


def _max_pool2d(w: Writer, attrs: Attrs, data: Any) -> fx.Node:
    fits = all(
        2 * pad <= extent for pad, extent in zip(attrs["pads"], attrs["kernel"] * 2, strict=True)
    )
    x, padding = _padding(w, w.node(data), attrs["pads"], float("-inf"), fits)
    return w.call(
        F.max_pool2d,
        x,
        attrs["kernel"],
        stride=attrs["strides"],
        padding=padding,
        dilation=attrs["dilations"],
        ceil_mode=attrs["ceil_mode"],
    )


def _avg_pool2d(w: Writer, attrs: Attrs, data: Any) -> fx.Node:
    pads, kernel = attrs["pads"], attrs["kernel"]
    options = {"stride": attrs["strides"], "ceil_mode": attrs["ceil_mode"]}
    fits = all(2 * pad <= extent for pad, extent in zip(pads, kernel * 2, strict=True))
    x, padding = _padding(w, w.node(data), pads, 0.0, fits)
    if x is w.node(data) or attrs["count_include_pad"]:
        counted = attrs["count_include_pad"]
        return w.call(
            F.avg_pool2d, x, kernel, padding=padding, count_include_pad=counted, **options
        )
    # Torch would count the padding that it does not know: divide by what lies inside.
    ones = F.pad(torch.ones((1, 1, *data.shape[2:])), _pad_order(pads))
    counts = F.avg_pool2d(ones, kernel, divisor_override=1, **options)
    sums = w.call(F.avg_pool2d, x, kernel, divisor_override=1, **options)
    return w.call(operator.mul, sums, w.weight(1 / counts.numpy()))


def _padding(
    w: Writer, x: fx.Node, pads: tuple[int, ...], value: float, fits: bool = True
) -> tuple[fx.Node, tuple[int, ...]]:
    """Return input and padding for a torch operator: padded beforehand if torch cannot pad so."""
    rank = len(pads) // 2
    if pads[:rank] == pads[rank:] and fits:
        return x, pads[:rank]
    return w.call(F.pad, x, _pad_order(pads), value=value), (0,) * rank


def _pad_order(pads: tuple[int, ...]) -> tuple[int, ...]:
    """Return ONNX pads (all begins, all ends) in torch's order.

    That is begin and end of each axis, the last axis first.
    """
    rank = len(pads) // 2
    return tuple(p for axis in reversed(range(rank)) for p in (pads[axis], pads[rank + axis]))


def _pad(w: Writer, attrs: Attrs, data: Any) -> fx.Node:
    return w.call(F.pad, w.node(data), _pad_order(attrs["pads"]), value=attrs["value"])


def _mean(w: Writer, attrs: Attrs, data: Any) -> fx.Node:
    return w.call(torch.mean, w.node(data), attrs["axes"], keepdim=attrs["keepdims"])


def _concat(w: Writer, attrs: Attrs, *inputs: Any) -> fx.Node:
    return w.call(torch.cat, [w.node(value) for value in inputs], attrs["axis"])


def _slice(w: Writer, attrs: Attrs, data: Any) -> fx.Node:
    x = w.node(data)
    rows = zip(attrs["axes"], attrs["starts"], attrs["ends"], attrs["steps"], strict=True)
    index = [slice(None)] * len(data.shape)
    for axis, start, end, step in rows:
        if step > 0:
            index[axis] = slice(start, end, step)
        else:
            chosen = w.weight(np.arange(start, end, step, dtype=np.int64))
            x = w.call(torch.index_select, x, axis, chosen)
    return w.call(operator.getitem, x, tuple(index))


def _split(w: Writer, attrs: Attrs, data: Any) -> list[fx.Node]:
    parts = w.call(torch.split, w.node(data), list(attrs["sizes"]), attrs["axis"])
    return [w.call(operator.getitem, parts, i) for i in range(len(attrs["sizes"]))]


def _lrn(w: Writer, attrs: Attrs, data: Any) -> fx.Node:
    return w.call(
        F.local_response_norm,
        w.node(data),
        attrs["size"],
        alpha=attrs["alpha"],
        beta=attrs["beta"],
        k=attrs["bias"],
    )


def _leaky_relu(w: Writer, attrs: Attrs, data: Any) -> fx.Node:
    return w.call(F.leaky_relu, w.node(data), attrs["alpha"])


def _softmax(w: Writer, attrs: Attrs, data: Any) -> fx.Node:
    return w.call(torch.softmax, w.node(data), attrs["axis"])


def _reshape(w: Writer, attrs: Attrs, data: Any) -> fx.Node:
    return w.call(torch.reshape, w.node(data), attrs["shape"])


def _transpose(w: Writer, attrs: Attrs, data: Any) -> fx.Node:
    return w.call(torch.permute, w.node(data), attrs["perm"])


def _cast(w: Writer, attrs: Attrs, data: Any) -> fx.Node:
    return w.call(torch.Tensor.to, w.node(data), getattr(torch, attrs["to"]))


CANONICAL: dict[str, Callable[..., Any]] = {
    "add": _simple(operator.add),
    "avg_pool2d": _avg_pool2d,
    "bias_add": _simple(operator.add),
    "cast": _cast,
    "clip": _simple(torch.clamp, "min", "max"),
    "concat": _concat,
    "conv2d": _conv2d,
    "dense": _dense,
    "divide": _simple(operator.truediv),
    "leaky_relu": _leaky_relu,
    "lrn": _lrn,
    "matmul": _simple(torch.matmul),
    "max_pool2d": _max_pool2d,
    "mean": _mean,
    "multiply": _simple(operator.mul),
    "pad": _pad,
    "relu": _simple(F.relu),
    "reshape": _reshape,
    "sigmoid": _simple(torch.sigmoid),
    "slice": _slice,
    "softmax": _softmax,
    "split": _split,
    "subtract": _simple(operator.sub),
    "tanh": _simple(torch.tanh),
    "transpose": _transpose,
}
