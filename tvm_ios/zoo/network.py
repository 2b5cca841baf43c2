"""A small language for writing image networks as ONNX."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvm_ios.zoo.model_writer import ModelWriter

#: ``"same"`` pads as TensorFlow does (the odd pixel below and to the right), ``"valid"`` not at
#: all; four numbers are top, left, bottom, right.
Padding = str | tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature map under construction: an ONNX value and its extents.

    ``rectified`` says that no value is negative, which decides the scale of the weights read next.
    """

    value: Any
    channels: int
    height: int
    width: int
    rectified: bool = False


class Network(ModelWriter):
    """A network under construction; every method appends one operator.

    Parameters
    ----------
    name
        Of the ONNX graph.
    seed
        Of all weights.
    input_shape
        Channels, height and width of the only input, ``"input"``; the batch is 1.
    """

    def __init__(self, name: str, seed: int, input_shape: tuple[int, int, int]) -> None:
        super().__init__(name, seed)
        value = self.new_input("input", (1, *input_shape))
        self.input = Feature(value, *input_shape)

    def conv(
        self,
        x: Feature,
        channels: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: Padding = "same",
        groups: int = 1,
        bias: bool = False,
    ) -> Feature:
        """Convolution with He-scaled weights."""
        kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
        pads = _pads(padding, x, kernel, stride)
        fan_in = x.channels // groups * kernel[0] * kernel[1]
        # A rectified input carries half the variance's worth of signal (He et al., 2015).
        scale = math.sqrt((2.0 if x.rectified else 1.0) / fan_in)
        name = self._fresh("conv")
        shape = (channels, x.channels // groups, *kernel)
        inputs = [x.value, self._weight(f"{name}.weight", self._normal(shape, scale))]
        if bias:
            inputs.append(self._weight(f"{name}.bias", self._normal((channels,), 0.1)))
        attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": (stride, stride)}
        attributes |= {"pads": pads, "group": groups}
        return self._spatial("Conv", name, inputs, attributes, x, channels, kernel, stride, pads)

    def batch_norm(self, x: Feature, epsilon: float = 1e-3) -> Feature:
        """Batch normalisation whose statistics differ from channel to channel."""
        name, shape = self._fresh("batch_norm"), (x.channels,)
        inputs = [
            x.value,
            self._weight(f"{name}.scale", self._uniform(shape, 0.8, 1.2)),
            self._weight(f"{name}.bias", self._normal(shape, 0.1)),
            self._weight(f"{name}.mean", self._normal(shape, 0.1)),
            self._weight(f"{name}.var", self._uniform(shape, 0.6, 1.4)),
        ]
        value = self._op("BatchNormalization", name, inputs, {"epsilon": epsilon})
        return replace(x, value=value, rectified=False)

    def relu(self, x: Feature) -> Feature:
        """Rectify."""
        return replace(x, value=self._op("Relu", self._fresh("relu"), [x.value]), rectified=True)

    def max_pool(
        self,
        x: Feature,
        kernel: int,
        stride: int,
        padding: Padding = "same",
        ceil_mode: bool = False,
    ) -> Feature:
        """Max pooling over square windows."""
        pads = _pads(padding, x, (kernel, kernel), stride)
        attributes: dict[str, Any] = {"kernel_shape": (kernel, kernel), "pads": pads}
        attributes |= {"strides": (stride, stride), "ceil_mode": int(ceil_mode)}
        return self._spatial(
            "MaxPool",
            self._fresh("max_pool"),
            [x.value],
            attributes,
            x,
            x.channels,
            (kernel, kernel),
            stride,
            pads,
            ceil_mode,
        )

    def avg_pool(self, x: Feature, kernel: int, stride: int, padding: Padding = "same") -> Feature:
        """Average pooling over square windows; padding does not count."""
        pads = _pads(padding, x, (kernel, kernel), stride)
        attributes: dict[str, Any] = {"kernel_shape": (kernel, kernel), "pads": pads}
        attributes |= {"strides": (stride, stride), "count_include_pad": 0}
        name = self._fresh("avg_pool")
        return self._spatial(
            "AveragePool",
            name,
            [x.value],
            attributes,
            x,
            x.channels,
            (kernel, kernel),
            stride,
            pads,
        )

    def shift(self, x: Feature) -> Feature:
        """Drop the first row and column and append a row and a column of zeros."""
        name = self._fresh("shift")
        pads = self._weight(f"{name}.pads", np.array([0, 0, 0, 0, 0, 0, 1, 1], np.int64))
        padded = self._op("Pad", f"{name}.pad", [x.value, pads])
        limits = ([1, 1], [x.height + 1, x.width + 1], [2, 3])
        labels = ("starts", "ends", "axes")
        bounds = [
            self._weight(f"{name}.{label}", np.array(limit, np.int64))
            for label, limit in zip(labels, limits, strict=True)
        ]
        return replace(x, value=self._op("Slice", f"{name}.slice", [padded, *bounds]))

    def add(self, *terms: Feature) -> Feature:
        """Sum of one or more feature maps, left to right."""
        total = terms[0]
        for term in terms[1:]:
            value = self._op("Add", self._fresh("add"), [total.value, term.value])
            total = replace(total, value=value, rectified=total.rectified and term.rectified)
        return total

    def concat(self, parts: Sequence[Feature]) -> Feature:
        """Concatenation along the channels."""
        value = self._op("Concat", self._fresh("concat"), [p.value for p in parts], {"axis": 1})
        channels = sum(part.channels for part in parts)
        rectified = all(part.rectified for part in parts)
        return replace(parts[0], value=value, channels=channels, rectified=rectified)

    def global_avg_pool(self, x: Feature) -> Feature:
        """Mean over height and width, which become 1."""
        value = self._op("GlobalAveragePool", self._fresh("global_avg_pool"), [x.value])
        return replace(x, value=value, height=1, width=1)

    def dropout(self, x: Feature) -> Feature:
        """Dropout, which does nothing at inference; importers must remove it."""
        return replace(x, value=self._op("Dropout", self._fresh("dropout"), [x.value]))

    def flatten(self, x: Feature) -> Any:
        """All but the batch into one axis."""
        return self._op("Flatten", self._fresh("flatten"), [x.value], {"axis": 1})

    def dense(self, x: Feature, classes: int) -> Any:
        """Flatten, then a fully connected layer with bias."""
        flat = self.flatten(x)
        features = x.channels * x.height * x.width
        name = self._fresh("dense")
        weight = self._normal((classes, features), math.sqrt(1.0 / features))
        inputs = [flat, self._weight(f"{name}.weight", weight)]
        inputs.append(self._weight(f"{name}.bias", self._normal((classes,), 0.1)))
        return self._op("Gemm", name, inputs, {"transB": 1})

    def _spatial(
        self,
        op_type: str,
        name: str,
        inputs: list[Any],
        attributes: Mapping[str, Any],
        x: Feature,
        channels: int,
        kernel: tuple[int, int],
        stride: int,
        pads: tuple[int, int, int, int],
        ceil_mode: bool = False,
    ) -> Feature:
        round_up = stride - 1 if ceil_mode else 0
        height = (x.height + pads[0] + pads[2] - kernel[0] + round_up) // stride + 1
        width = (x.width + pads[1] + pads[3] - kernel[1] + round_up) // stride + 1
        value = self._op(op_type, name, inputs, attributes)
        return Feature(value, channels, height, width, x.rectified and op_type != "Conv")


def _pads(
    padding: Padding, x: Feature, kernel: tuple[int, int], stride: int
) -> tuple[int, int, int, int]:
    if isinstance(padding, tuple):
        return padding
    if padding == "valid":
        return (0, 0, 0, 0)
    total = [
        max(0, (-(-extent // stride) - 1) * stride + k - extent)
        for extent, k in zip((x.height, x.width), kernel, strict=True)
    ]
    return (total[0] // 2, total[1] // 2, total[0] - total[0] // 2, total[1] - total[1] // 2)
