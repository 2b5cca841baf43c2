"""A writer of image networks as ONNX; most methods append one operator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvm_ios.zoo.writing.model_writer import ModelWriter
from tvm_ios.zoo.writing.padding import Padding, pads_of

#: Activations of a normal signal: the mean square that they leave of it, and their attributes.
_ACTIVATIONS: dict[str, tuple[float, Mapping[str, float]]] = {
    "Relu": (0.5, {}),
    "HardSwish": (0.35, {}),
    "Sigmoid": (0.3, {}),
    "HardSigmoid": (0.3, {"alpha": 1 / 6, "beta": 0.5}),
}


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature map under construction: an ONNX value and its extents.

    ``moment`` is about the mean square of its elements, which decides the scale of the weights that
    read it: a rectified signal keeps half of it (He et al., 2015).
    """

    value: Any
    channels: int
    height: int
    width: int
    moment: float = 1.0


class ImageNetwork(ModelWriter):
    """A writer of image networks; most methods append one operator.

    ``input_shape`` is (channels, height, width) of the first input, ``"input"``; the batch is 1.
    The seed is that of all weights.
    """

    def __init__(self, name: str, seed: int, input_shape: tuple[int, int, int]) -> None:
        super().__init__(name, seed)
        self.input = self.image("input", input_shape)

    def image(self, name: str, shape: tuple[int, int, int]) -> Feature:
        """Add an image input of these channels, height and width."""
        return Feature(self.new_input(name, (1, *shape)), *shape)

    def conv(
        self,
        x: Feature,
        channels: int,
        kernel: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: Padding = "same",
        groups: int = 1,
        bias: bool = False,
        dilation: int = 1,
    ) -> Feature:
        """Append a convolution with He-scaled weights."""
        kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
        strides = (stride, stride) if isinstance(stride, int) else stride
        window = ((kernel[0] - 1) * dilation + 1, (kernel[1] - 1) * dilation + 1)
        pads = pads_of(padding, (x.height, x.width), window, strides)
        fan_in = x.channels // groups * kernel[0] * kernel[1]
        scale = math.sqrt(1.0 / x.moment / fan_in)
        name = self._fresh("conv")
        shape = (channels, x.channels // groups, *kernel)
        inputs = [x.value, self._weight(f"{name}.weight", self._normal(shape, scale))]
        if bias:
            inputs.append(self._weight(f"{name}.bias", self._normal((channels,), 0.1)))
        attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
        attributes |= {"pads": pads, "group": groups}
        if dilation > 1:
            attributes["dilations"] = (dilation, dilation)
        return self._spatial("Conv", name, inputs, attributes, x, channels)

    def batch_norm(self, x: Feature, epsilon: float = 1e-3) -> Feature:
        """Append a batch norm whose statistics differ from channel to channel."""
        name, shape = self._fresh("batch_norm"), (x.channels,)
        inputs = [
            x.value,
            self._weight(f"{name}.scale", self._uniform(shape, 0.8, 1.2)),
            self._weight(f"{name}.bias", self._normal(shape, 0.1)),
            self._weight(f"{name}.mean", self._normal(shape, 0.1)),
            self._weight(f"{name}.var", self._uniform(shape, 0.6, 1.4)),
        ]
        value = self._op("BatchNormalization", name, inputs, {"epsilon": epsilon})
        return replace(x, value=value, moment=1.0)

    def conv_transpose(self, x: Feature, channels: int, kernel: int, stride: int) -> Feature:
        """Append a transposed convolution without padding, with a bias."""
        name = self._fresh("conv_transpose")
        # A pixel of the result sums over so many of a channel's weights.
        taps = max(1, kernel // stride) ** 2
        weight = self._normal(
            (x.channels, channels, kernel, kernel),
            math.sqrt(1.0 / x.moment / (x.channels * taps)),
        )
        inputs = [x.value, self._weight(f"{name}.weight", weight)]
        inputs.append(self._weight(f"{name}.bias", self._normal((channels,), 0.1)))
        attributes = {"kernel_shape": (kernel, kernel), "strides": (stride, stride)}
        value = self._op("ConvTranspose", name, inputs, attributes)
        extents = ((extent - 1) * stride + kernel for extent in (x.height, x.width))
        return Feature(value, channels, *extents)

    def upsample(self, x: Feature, factor: int, mode: str = "nearest") -> Feature:
        """Enlarge by repeating pixels (``"nearest"``) or by interpolation (``"linear"``)."""
        name = self._fresh("resize")
        factors = np.array([1, 1, factor, factor], np.float32)
        inputs = [x.value, None, self._weight(f"{name}.scales", factors)]
        attributes = {"mode": mode, "nearest_mode": "floor"}
        attributes["coordinate_transformation_mode"] = (
            "asymmetric" if mode == "nearest" else "half_pixel"
        )
        value = self._op("Resize", name, inputs, attributes)
        return replace(x, value=value, height=x.height * factor, width=x.width * factor)

    def relu(self, x: Feature) -> Feature:
        """Append a ReLU."""
        return self.activation("Relu", x)

    def activation(self, kind: str, x: Feature) -> Feature:
        """Append an activation by its ONNX name: Relu, HardSwish, Sigmoid or HardSigmoid."""
        moment, attributes = _ACTIVATIONS[kind]
        value = self._op(kind, self._fresh(kind.lower()), [x.value], attributes)
        return replace(x, value=value, moment=moment)

    def relu6(self, x: Feature) -> Feature:
        """Clip to the range from 0 to 6."""
        name = self._fresh("clip")
        limits = [
            self._weight(f"{name}.{label}", np.array(limit, np.float32))
            for label, limit in (("min", 0.0), ("max", 6.0))
        ]
        return replace(x, value=self._op("Clip", name, [x.value, *limits]), moment=0.5)

    def swish(self, x: Feature) -> Feature:
        """Append ``x * sigmoid(x)``, as two operators."""
        return replace(self.multiply(x, self.activation("Sigmoid", x)), moment=0.35)

    def multiply(self, x: Feature, factor: Feature) -> Feature:
        """Append a product; a factor of one pixel is broadcast."""
        value = self._op("Mul", self._fresh("mul"), [x.value, factor.value])
        return replace(x, value=value, moment=x.moment * factor.moment)

    def squeeze_excite(self, x: Feature, channels: int, inner: str, gate: str) -> Feature:
        """Scale each channel by a gate computed from the means of all channels."""
        mean = self.global_avg_pool(x)
        squeezed = self.conv(mean, channels, 1, bias=True)
        squeezed = self.swish(squeezed) if inner == "Swish" else self.activation(inner, squeezed)
        return self.multiply(
            x, self.activation(gate, self.conv(squeezed, x.channels, 1, bias=True))
        )

    def split(self, x: Feature, parts: int) -> list[Feature]:
        """Split the channels into equal parts."""
        channels = x.channels // parts
        names = [self._fresh("part") for _ in range(parts)]
        values = self._parts("split", x.value, names)
        return [replace(x, value=value, channels=channels) for value in values]

    def max_pool(
        self,
        x: Feature,
        kernel: int,
        stride: int,
        padding: Padding = "same",
        ceil_mode: bool = False,
    ) -> Feature:
        """Append max pooling over square windows."""
        pads = pads_of(padding, (x.height, x.width), (kernel, kernel), (stride, stride))
        attributes: dict[str, Any] = {"kernel_shape": (kernel, kernel), "pads": pads}
        attributes |= {"strides": (stride, stride), "ceil_mode": int(ceil_mode)}
        name = self._fresh("max_pool")
        return self._spatial("MaxPool", name, [x.value], attributes, x, x.channels)

    def avg_pool(self, x: Feature, kernel: int, stride: int, padding: Padding = "same") -> Feature:
        """Append average pooling over square windows; padding does not count."""
        pads = pads_of(padding, (x.height, x.width), (kernel, kernel), (stride, stride))
        attributes: dict[str, Any] = {"kernel_shape": (kernel, kernel), "pads": pads}
        attributes |= {"strides": (stride, stride), "count_include_pad": 0}
        name = self._fresh("avg_pool")
        return self._spatial("AveragePool", name, [x.value], attributes, x, x.channels)

    def shift(self, x: Feature) -> Feature:
        """Drop the first row and column and append a row and a column of zeros."""
        name = self._fresh("shift")
        pads = self._weight(f"{name}.pads", np.array([0, 0, 0, 0, 0, 0, 1, 1], np.int64))
        padded = self._op("Pad", f"{name}.pad", [x.value, pads])
        larger = replace(x, value=padded, height=x.height + 1, width=x.width + 1)
        return self._without_first_pixels(f"{name}.slice", larger)

    def zero_channels(self, x: Feature, count: int) -> Feature:
        """Append ``count`` channels of zeros, and prepend as many."""
        name = self._fresh("zero_channels")
        widths = np.array([0, count, 0, 0, 0, count, 0, 0], np.int64)
        value = self._op("Pad", name, [x.value, self._weight(f"{name}.pads", widths)])
        return replace(x, value=value, channels=x.channels + 2 * count)

    def without_first_pixels(self, x: Feature) -> Feature:
        """Drop the first row and column."""
        return self._without_first_pixels(self._fresh("crop"), x)

    def _without_first_pixels(self, name: str, x: Feature) -> Feature:
        limits = ([1, 1], [x.height, x.width], [2, 3])
        labels = ("starts", "ends", "axes")
        bounds = [
            self._weight(f"{name}.{label}", np.array(limit, np.int64))
            for label, limit in zip(labels, limits, strict=True)
        ]
        value = self._op("Slice", name, [x.value, *bounds])
        return replace(x, value=value, height=x.height - 1, width=x.width - 1)

    def first_channels(self, x: Feature, channels: int) -> Feature:
        """Keep the first channels; if that is all of them, no operator is appended."""
        if channels == x.channels:
            return x
        name = self._fresh("first_channels")
        bounds = [
            self._weight(f"{name}.{label}", np.array([limit], np.int64))
            for label, limit in (("starts", 0), ("ends", channels), ("axes", 1))
        ]
        value = self._op("Slice", name, [x.value, *bounds])
        return replace(x, value=value, channels=channels)

    def add(self, *terms: Feature) -> Feature:
        """Append the sum of one or more feature maps, left to right."""
        total = terms[0]
        for term in terms[1:]:
            value = self._op("Add", self._fresh("add"), [total.value, term.value])
            total = replace(total, value=value, moment=max(total.moment, term.moment))
        return total

    def residual(self, x: Feature, y: Feature) -> Feature:
        """Append the sum of uncorrelated signals without activation, whose moments add up."""
        return replace(self.add(x, y), moment=x.moment + y.moment)

    def concat(self, parts: Sequence[Feature]) -> Feature:
        """Concatenate along the channels."""
        value = self._op("Concat", self._fresh("concat"), [p.value for p in parts], {"axis": 1})
        channels = sum(part.channels for part in parts)
        moment = max(part.moment for part in parts)
        return replace(parts[0], value=value, channels=channels, moment=moment)

    def global_avg_pool(self, x: Feature) -> Feature:
        """Append the mean over height and width, which become 1."""
        value = self._op("GlobalAveragePool", self._fresh("global_avg_pool"), [x.value])
        return replace(x, value=value, height=1, width=1)

    def dropout(self, x: Feature) -> Feature:
        """Append a dropout, which does nothing at inference; importers must remove it."""
        return replace(x, value=self._op("Dropout", self._fresh("dropout"), [x.value]))

    def flatten(self, x: Feature) -> Any:
        """Flatten all axes but the batch into one."""
        return self._op("Flatten", self._fresh("flatten"), [x.value], {"axis": 1})

    def hidden(self, x: Feature, features: int) -> Feature:
        """Append a rectified dense layer; the result is a feature map of one pixel.

        Its ONNX value has shape (1, features), without the two image axes.
        """
        value = self._op("Relu", self._fresh("relu"), [self.dense(x, features)])
        return Feature(value, features, 1, 1, 0.5)

    def dense(self, x: Feature, classes: int, bias: bool = True) -> Any:
        """Flatten, then append a dense layer."""
        flat = self.flatten(x)
        features = x.channels * x.height * x.width
        name = self._fresh("dense")
        weight = self._normal((classes, features), math.sqrt(1.0 / features))
        inputs = [flat, self._weight(f"{name}.weight", weight)]
        if bias:
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
    ) -> Feature:
        kernel, strides, pads = (attributes[n] for n in ("kernel_shape", "strides", "pads"))
        extents: list[int] = []
        dilations = attributes.get("dilations", (1, 1))
        for axis, extent in enumerate((x.height, x.width)):
            window = (kernel[axis] - 1) * dilations[axis] + 1
            steps = extent + pads[axis] + pads[axis + 2] - window
            if attributes.get("ceil_mode"):
                steps += strides[axis] - 1
            extents.append(steps // strides[axis] + 1)
        value = self._op(op_type, name, inputs, attributes)
        moment = 1.0 if op_type == "Conv" else x.moment
        return Feature(value, channels, extents[0], extents[1], moment)
