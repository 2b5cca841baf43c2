"""Read the canonical kind and attributes of operators that Relax and Relay describe alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tvm_ios.graph.elements import AttrValue

Attrs = dict[str, AttrValue]
Shape = tuple[int, ...]

#: The kinds of operators without attributes, by TVM's names.
ELEMENTWISE = {
    "nn.relu": "relu",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "exp": "exp",
    "sqrt": "sqrt",
    "erf": "erf",
    "negative": "neg",
    "abs": "abs",
    "nn.gelu": "gelu",
    "nn.silu": "silu",
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
    "power": "pow",
    "maximum": "max",
    "minimum": "min",
}


def described_alike(
    name: str, attributes: Any, shape: Callable[[], Shape]
) -> tuple[str, Attrs] | None:
    """Return canonical kind and attributes of an operator that both dialects describe alike.

    ``name`` is TVM's, without ``relax.``; ``shape`` returns the result's and is called only for
    operators that are in the tables here. Return None for other operators, and for layouts and
    variants that have no canonical kind.
    """
    if name in ELEMENTWISE:
        return ELEMENTWISE[name], {}
    if name not in _READERS:
        return None
    kind, read = _READERS[name]
    attrs = read(attributes, shape())
    return None if attrs is None else (kind, attrs)


def ints(values: Iterable[Any]) -> tuple[int, ...]:
    """Return TVM's integers as Python's."""
    return tuple(int(value) for value in values)


def sliced(
    shape: Shape,
    axes: Iterable[int],
    begins: Iterable[int],
    ends: Iterable[int],
    steps: Iterable[int],
) -> tuple[str, Attrs]:
    """Return canonical kind and attributes of a slice: only the axes of which a part is taken.

    ``axes`` count from the first; ``begins`` and ``ends`` may be negative or out of range.
    """
    rows: list[tuple[int, int, int, int]] = []
    for axis, begin, end, step in zip(axes, begins, ends, steps, strict=True):
        start, stop, _ = slice(begin, end, step).indices(shape[axis])
        if (start, stop, step) != (0, shape[axis], 1):
            rows.append((axis, start, stop, step))
    rows.sort()
    names = ("axes", "starts", "ends", "steps")
    return "slice", {name: tuple(row[i] for row in rows) for i, name in enumerate(names)}


Reader = Callable[[Any, Shape], Attrs | None]


def _pads(values: Iterable[Any]) -> tuple[int, ...]:
    pads = ints(values)
    return pads if len(pads) == 4 else pads * (4 // len(pads))


def _convolution(kernel_layout: str) -> Reader:
    def read(a: Any, shape: Shape) -> Attrs | None:
        layouts = (a.data_layout, a.kernel_layout, a.out_layout or a.data_layout)
        if layouts != ("NCHW", kernel_layout, "NCHW"):
            return None
        return {
            "strides": ints(a.strides),
            "pads": _pads(a.padding),
            "dilations": ints(a.dilation),
            "group": int(a.groups),
        }

    return read


def _transposed_convolution(a: Any, shape: Shape) -> Attrs | None:
    attrs = _convolution("IOHW")(a, shape)
    return attrs and {**attrs, "output_padding": ints(a.output_padding)}


def _pool(a: Any) -> Attrs:
    return {
        "kernel": ints(a.pool_size),
        "strides": ints(a.strides),
        "pads": _pads(a.padding),
        "ceil_mode": bool(a.ceil_mode),
    }


def _is_nchw(a: Any) -> bool:
    return a.layout == "NCHW" == (a.out_layout or a.layout)


def _max_pool(a: Any, shape: Shape) -> Attrs | None:
    return {**_pool(a), "dilations": ints(a.dilation)} if _is_nchw(a) else None


def _average_pool(a: Any, shape: Shape) -> Attrs | None:
    if not _is_nchw(a) or ints(a.dilation) != (1, 1):
        return None
    return {**_pool(a), "count_include_pad": bool(a.count_include_pad)}


def _resize(a: Any, shape: Shape) -> Attrs | None:
    if a.layout != "NCHW" or a.coordinate_transformation_mode == "tf_crop_and_resize":
        return None
    mode = str(a.method).removesuffix("_neighbor")
    attrs: Attrs = {
        "size": shape[2:],
        "mode": mode,
        "coordinates": str(a.coordinate_transformation_mode),
    }
    if mode == "nearest":
        attrs["rounding"] = str(a.rounding_method)
    elif mode == "cubic":
        attrs["alpha"] = float(a.cubic_alpha)
    return attrs


def _along(a: Any, shape: Shape) -> Attrs:
    return {"axis": int(a.axis) % len(shape)}


def _transpose(a: Any, shape: Shape) -> Attrs:
    rank = len(shape)
    order = range(rank)[::-1] if a.axes is None else (axis % rank for axis in ints(a.axes))
    return {"perm": tuple(order)}


def _reshape(a: Any, shape: Shape) -> Attrs:
    return {"shape": shape}


def _leaky_relu(a: Any, shape: Shape) -> Attrs:
    return {"alpha": float(a.alpha)}


#: The reader of each operator's attributes; some names are of one dialect only.
_READERS: dict[str, tuple[str, Reader]] = {
    "nn.conv2d": ("conv2d", _convolution("OIHW")),
    "nn.conv2d_transpose": ("conv2d_transpose", _transposed_convolution),
    "image.resize2d": ("resize2d", _resize),
    "nn.max_pool2d": ("max_pool2d", _max_pool),
    "nn.avg_pool2d": ("avg_pool2d", _average_pool),
    "concat": ("concat", _along),
    "concatenate": ("concat", _along),
    "nn.softmax": ("softmax", _along),
    "permute_dims": ("transpose", _transpose),
    "transpose": ("transpose", _transpose),
    "reshape": ("reshape", _reshape),
    "expand_dims": ("reshape", _reshape),
    "squeeze": ("reshape", _reshape),
    "flatten": ("reshape", _reshape),
    "nn.batch_flatten": ("reshape", _reshape),
    "nn.leakyrelu": ("leaky_relu", _leaky_relu),
    "nn.leaky_relu": ("leaky_relu", _leaky_relu),
    "nn.prelu": ("prelu", _along),
}
