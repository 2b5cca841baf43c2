"""A pass that makes 1-D convolutions and pools 2-D; see :mod:`tvm_ios.onnx.rewrites.one_row`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_passes.relax.expressions import (
    constant,
    constant_value,
    first_field,
    operator_name,
    rebuild,
    substitute,
)

#: The 2-D operator for each 1-D one.
_WINDOWS: Mapping[str, Callable[..., Any]] = {
    "relax.nn.conv1d": relax.op.nn.conv2d,
    "relax.nn.conv1d_transpose": relax.op.nn.conv2d_transpose,
    "relax.nn.max_pool1d": relax.op.nn.max_pool2d,
    "relax.nn.avg_pool1d": relax.op.nn.avg_pool2d,
}
#: Attributes of a window with a value for each axis, and that of the new axis.
_ALONG_ROWS = {"strides": 1, "dilation": 1, "pool_size": 1, "output_padding": 0}
_STAY = ("groups", "ceil_mode", "count_include_pad")
_OF_ONE = frozenset(
    f"relax.{name}"
    for name in (
        *("abs", "astype", "ceil", "clip", "erf", "exp", "floor", "log", "negative", "round"),
        *("sigmoid", "sqrt", "tanh", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.relu"),
        *("nn.silu", "nn.softplus"),
    )
)
_OF_TWO = frozenset(
    f"relax.{name}"
    for name in ("add", "divide", "maximum", "minimum", "multiply", "power", "subtract")
)
_NORM = "relax.nn.batch_norm"


@tvm.transform.module_pass(opt_level=0, name="OneRowImages")
class OneRowImages:
    """A pass that turns 1-D convolutions and pools into 2-D ones on images of one row.

    Element-wise operators, batch norms and concatenations between them work on the images (N, C, 1,
    W) too, so that no change of shape is left between convolutions.
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module with 2-D images of one row; called by :class:`tvm.transform.Pass`."""
        #: The image (N, C, 1, W) of each value (N, C, W), or of the tuple of a batch norm.
        images: dict[Any, Any] = {}

        def emit(
            builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]
        ) -> Any:
            value = substitute(binding.value, new)
            name = operator_name(value)
            if name in _WINDOWS and _is_plain(value):
                data = value.args[0]
                if data not in images:
                    images[data] = builder.emit(relax.op.expand_dims(data, 2))
                image = builder.emit(_window(value, images[data]))
            elif name == _NORM and value.args[0] in images and int(value.attrs.axis) == 1:
                result = builder.emit(value)
                images[result] = builder.emit(_with_data(value, images[value.args[0]]))
                return result
            elif (normalised := first_field(value, images)) is not None:
                image = builder.emit(relax.TupleGetItem(normalised, 0))
            else:
                widened = _widened(value, images)
                if widened is None:
                    return builder.emit(value)
                image = builder.emit(widened)
            row = builder.emit(relax.op.squeeze(image, 2))
            images[row] = image
            return row

        return rebuild(mod, "main", emit, _WINDOWS)


def _is_plain(call: Any) -> bool:
    """Return whether data and weights have the default layouts, and the weights are constant."""
    attributes = call.attrs
    if "conv1d" not in call.op.name:
        return str(attributes.layout) == str(attributes.out_layout) == "NCW"
    layouts = {str(attributes.data_layout), str(attributes.out_layout)}
    kernel = "IOW" if call.op.name.endswith("transpose") else "OIW"
    known = constant_value(call.args[1]) is not None
    return layouts == {"NCW"} and str(attributes.kernel_layout) == kernel and known


def _window(call: Any, image: Any) -> Any:
    attributes = call.attrs
    widths = {
        name: (along, *map(int, getattr(attributes, name)))
        for name, along in _ALONG_ROWS.items()
        if hasattr(attributes, name)
    }
    begin, *end = map(int, attributes.padding)
    widths["padding"] = (0, begin, 0, *(end or [begin]))
    others = {name: getattr(attributes, name) for name in _STAY if hasattr(attributes, name)}
    weight = constant_value(call.args[1]) if len(call.args) > 1 else None
    if weight is None:
        return _WINDOWS[call.op.name](image, **widths, **others)
    others["out_dtype"] = attributes.out_dtype
    image_of_weight = constant(np.expand_dims(weight, 2))
    return _WINDOWS[call.op.name](image, image_of_weight, **widths, **others)


def _with_data(call: Any, image: Any) -> Any:
    return relax.Call(call.op, [image, *call.args[1:]], call.attrs, call.ty_args)


def _widened(value: Any, images: Mapping[Any, Any]) -> Any:
    """Return an element-wise operator or concatenation of images, written on them; else None."""
    name = operator_name(value)
    if name in _OF_ONE and value.args[0] in images:
        return _with_data(value, images[value.args[0]])
    if name in _OF_TWO and any(leaf in images for leaf in value.args):
        terms = [_term(leaf, images) for leaf in value.args]
        if all(term is not None for term in terms):
            return relax.Call(value.op, terms, value.attrs, value.ty_args)
    if name == "relax.concat" and value.attrs.axis is not None:
        fields = value.args[0].fields if isinstance(value.args[0], relax.Tuple) else [None]
        if all(field in images for field in fields):
            axis = int(value.attrs.axis) % 3
            return relax.op.concat([images[field] for field in fields], axis + (axis == 2))
    return None


def _term(leaf: Any, images: Mapping[Any, Any]) -> Any:
    """Return the image of a leaf, or a constant in a shape that broadcasts to images; else None."""
    array = constant_value(leaf)
    if array is None or array.ndim > 3:
        return images.get(leaf)
    return leaf if array.ndim < 2 else constant(np.expand_dims(array, -2))
