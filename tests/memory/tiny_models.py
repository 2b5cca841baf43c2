"""Ten models for microcontrollers: those of MLPerf Tiny's kinds, and networks with branches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.tflite_sketch import TfliteSketch


def keyword_spotting() -> bytes:
    """A depthwise separable CNN over 49 x 10 features of speech."""
    s = TfliteSketch()
    x = s.conv(s.input(1, 49, 10, 1), 64, (10, 4), 2)
    for _ in range(4):
        x = s.separable(x, 64)
    x = s.dense(s.flat(s.pool(x, 25, 25, "AVERAGE")), 12, 0)
    return s.file(s.softmax(x))


def resnet8() -> bytes:
    """ResNet-8 over 32 x 32 images."""
    s = TfliteSketch()
    x = s.conv(s.input(1, 32, 32, 3), 16)
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        y = s.conv(s.conv(x, channels, 3, stride), channels)
        x = s.add(x if stride == 1 else s.conv(x, channels, 1, stride), y)
    return s.file(s.softmax(s.dense(s.mean(x), 10, 0)))


def mobilenet_quarter() -> bytes:
    """MobileNetV1 with a quarter of its channels, over 96 x 96 images."""
    s = TfliteSketch()
    x = s.conv(s.input(1, 96, 96, 3), 8, 3, 2)
    for channels, stride in (
        *((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2)),
        *((128, 1),) * 5,
        *((256, 2), (256, 1)),
    ):
        x = s.separable(x, channels, 3, stride)
    return s.file(s.softmax(s.dense(s.flat(s.pool(x, 3, 3, "AVERAGE")), 2, 0)))


def autoencoder() -> bytes:
    """An autoencoder of dense layers, for sounds that are not usual."""
    s = TfliteSketch()
    x = s.input(1, 640)
    for units in (*(128,) * 4, 8, *(128,) * 4):
        x = s.dense(x, units)
    return s.file(s.dense(x, 640, 0))


def inception() -> bytes:
    """Inception modules, each of four branches, in float32."""
    s = TfliteSketch(np.float32)
    x = s.conv(s.input(1, 24, 24, 3), 16, 3, 2)
    for width in (8, 12):
        heads = s.conv(x, width, 1), s.conv(x, 2 * width, 1), s.conv(x, width, 1), s.pool(x)
        x = s.concat(
            heads[0],
            s.conv(heads[1], width),
            s.conv(heads[2], width, 5),
            s.conv(heads[3], width, 1),
        )
    return s.file(s.softmax(s.dense(s.mean(x), 10, 0)))


def densenet() -> bytes:
    """Two dense blocks, in which each layer reads all before it."""
    s = TfliteSketch()
    x = s.conv(s.input(1, 24, 24, 3), 16)
    for _ in range(2):
        for _ in range(4):
            x = s.concat(x, s.conv(s.conv(x, 24, 1), 8))
        x = s.pool(s.conv(x, s.shape(x)[-1] // 2, 1), 2, 2, "AVERAGE")
    return s.file(s.softmax(s.dense(s.mean(x), 10, 0)))


def nasnet() -> bytes:
    """Cells of five pairs of operators like NASNet's, listed with all that read an input first."""
    s = TfliteSketch()
    before = x = s.conv(s.input(1, 20, 20, 3), 12)
    for width in (12, 16):
        left, right = s.conv(before, width, 1), s.conv(x, width, 1)
        wide = s.separable(left, width, 5), s.separable(right, width, 5)
        near = s.separable(left, width), s.separable(right, width)
        pools = s.pool(left, 3, 1, "AVERAGE"), s.pool(right, 3, 1, "AVERAGE")
        pairs = (
            s.add(wide[1], near[0]),
            s.add(wide[0], near[0]),
            s.add(pools[1], left),
            s.add(pools[0], pools[0]),
            s.add(near[1], right),
        )
        before, x = x, s.concat(left, *pairs)
    return s.file(s.softmax(s.dense(s.mean(x), 10, 0)))


def randwire() -> bytes:
    """A random network: each node adds some before it, and convolves them."""
    s = TfliteSketch(seed=4)
    nodes = [s.conv(s.input(1, 16, 16, 3), 16)]
    unread = set[int]()
    for _ in range(18):
        count = min(len(nodes), int(s.rng.integers(1, 4)))
        chosen = sorted(s.rng.choice(len(nodes[-6:]), min(count, len(nodes[-6:])), replace=False))
        read = [nodes[-6:][n] for n in chosen]
        x = read[0]
        for other in read[1:]:
            x = s.add(x, other)
        nodes.append(s.separable(x, 16))
        unread = (unread - set(read)) | {nodes[-1]}
    return s.file(s.softmax(s.dense(s.mean(s.concat(*sorted(unread))), 10, 0)))


def unet() -> bytes:
    """An encoder and a decoder with transposed convolutions, whose kernels need scratch."""
    s = TfliteSketch()
    x = s.conv(s.input(1, 32, 32, 1), 8)
    kept = list[int]()
    for width in (12, 16):
        kept.append(x)
        x = s.conv(s.pool(x, 2, 2), width)
    for skipped in reversed(kept):
        x = s.conv(s.concat(s.enlarge(x, 4), s.conv(skipped, 4, 1)), 8)
    return s.file(s.unary(s.conv(x, 1, 1), "LOGISTIC"))


def detector() -> bytes:
    """A backbone with two heads at each of three scales, listed after it, and six outputs."""
    s = TfliteSketch()
    x = s.conv(s.input(1, 48, 48, 1), 8, 3, 2)
    scales = list[int]()
    for width in (16, 24, 32):
        x = s.separable(x, width, 3, 2)
        scales.append(x)
    outputs = list[int]()
    for scale in scales:
        _, height, width, _ = s.shape(scale)
        for values in (8, 4):
            head = s.conv(s.separable(scale, 24), values, 1)
            outputs.append(s.reshape(head, 1, height * width, values))
    return s.file(*outputs)


TINY_MODELS: dict[str, Callable[[], bytes]] = {
    model.__name__: model
    for model in (
        keyword_spotting, resnet8, mobilenet_quarter, autoencoder, inception,
        densenet, nasnet, randwire, unet, detector,
    )
}  # fmt: skip
