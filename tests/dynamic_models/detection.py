"""Models that find things, and text, in images."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.dynamic_models.drawing import FLOAT, INT64, Drawing

CLASSES, ANCHORS = 3, 2


def _rows(d: Drawing, x: str, width: int) -> str:
    """A head's result, (1, anchors * width, h, w), as (1, boxes, width)."""
    split = d.view(x, d.extent(x, 0), ANCHORS, width, d.extent(x, 2), d.extent(x, 3))
    turned = d.op("Transpose", split, perm=[0, 3, 4, 1, 2])
    return d.view(turned, d.extent(x, 0), -1, width)


def _backbone(d: Drawing, x: str, *channels: int) -> list[str]:
    """Images of half, a quarter, an eighth... of the size."""
    levels: list[str] = []
    for before, after in zip((3, *channels), channels, strict=False):
        x = d.conv_relu(x, before, after, stride=2)
        levels.append(x)
    return levels


def _decoded(d: Drawing, offsets: str, count: int) -> str:
    """Corners of boxes: offsets from so many anchors, which are constants."""
    centres = d.const(d.rng.uniform(0, 1, (1, count, 2)))
    sizes = d.const(d.rng.uniform(0.1, 0.4, (1, count, 2)))
    shift, growth = d.op("Split", offsets, d.ints(2, 2), outputs=2, axis=2)
    shift = d.op("Mul", shift, d.const(np.float32(0.1)))
    centre = d.op("Add", centres, d.op("Mul", shift, sizes))
    growth = d.op("Exp", d.op("Mul", growth, d.const(np.float32(0.2))))
    half = d.op("Div", d.op("Mul", sizes, growth), d.const(np.float32(2)))
    return d.op("Concat", d.op("Sub", centre, half), d.op("Add", centre, half), axis=2)


def _kept(d: Drawing, boxes: str, scores: str) -> dict[str, str]:
    """The boxes that stay after suppression, their scores and classes, as torchvision writes it.

    Parameters
    ----------
    boxes, scores
        Of (1, boxes, 4) and (1, classes, boxes).
    """
    limits = [np.array([4]), np.array([0.4]), np.array([0.5])]
    chosen = d.op("NonMaxSuppression", boxes, scores, *map(d.const, limits))
    classes = d.op("Gather", chosen, d.one(1), axis=1)
    places = d.op("Gather", chosen, d.one(2), axis=1)
    return {
        "boxes": d.op("Gather", d.op("Squeeze", boxes, d.ints(0)), places, axis=0),
        "scores": d.op("GatherND", scores, chosen),
        "classes": classes,
    }


def ssd() -> Any:
    """Heads on two levels, decoded by anchors; the last thing is non-maximum suppression."""
    d = Drawing()
    levels = _backbone(d, d.input("image", 1, 3, 32, 32), 8, 12, 16)[1:]
    widths = (12, 16)
    offsets, logits = (
        d.op("Concat", *heads, axis=1)
        for heads in (
            [_rows(d, d.conv2(x, w, ANCHORS * n), n) for x, w in zip(levels, widths, strict=True)]
            for n in (4, CLASSES + 1)
        )
    )
    shares = d.op("Softmax", d.op("Mul", logits, d.const(np.float32(3))), axis=2)
    things = d.op("Slice", shares, d.ints(1), d.ints(CLASSES + 1), d.ints(2))
    scores = d.op("Transpose", things, perm=[0, 2, 1])
    boxes = _decoded(d, offsets, ANCHORS * (8 * 8 + 4 * 4))
    return d.finished(_kept(d, boxes, scores), [FLOAT, FLOAT, INT64])


def _yolo(d: Drawing) -> tuple[str, str]:
    """Boxes, (1, boxes, 4), and scores, (1, boxes, classes), of a grid."""
    x = d.input("images", 1, 3, 32, 32)
    for before, after in ((3, 8), (8, 16)):
        y = d.conv2(x, before, after, stride=2)
        x = d.op("Mul", y, d.op("Sigmoid", y))
    parts = d.op("Split", x, d.ints(8, 8), outputs=2, axis=1)
    more = d.op("Add", parts[1], d.conv_relu(parts[1], 8, 8))
    x = d.op("Concat", *parts, more, axis=1)
    pooled = [d.op("MaxPool", x, kernel_shape=[k, k], pads=[k // 2] * 4) for k in (3, 5)]
    x = d.conv_relu(d.op("Concat", x, *pooled, axis=1), 72, 16, kernel=1)
    rows = _rows(d, d.conv2(x, 16, ANCHORS * (5 + CLASSES), kernel=1), 5 + CLASSES)
    rows = d.op("Sigmoid", rows)
    place, size, thing, classes = d.op("Split", rows, d.ints(2, 2, 1, CLASSES), outputs=4, axis=2)
    grid = np.stack(np.meshgrid(np.arange(8), np.arange(8)), -1).reshape(-1, 1, 2)
    grid = np.repeat(grid, ANCHORS, 1).reshape(1, -1, 2) - 0.5
    two = d.const(np.float32(2))
    centre = d.op(
        "Mul", d.op("Add", d.op("Mul", place, two), d.const(grid)), d.const(np.float32(4))
    )
    doubled = d.op("Pow", d.op("Mul", size, two), two)
    half = d.op("Mul", doubled, d.const(d.rng.uniform(2, 5, (1, 128, 2))))
    boxes = d.op("Concat", d.op("Sub", centre, half), d.op("Add", centre, half), axis=2)
    return boxes, d.op("Mul", classes, thing)


def yolo() -> Any:
    """A grid's boxes and scores, which the application sorts out."""
    d = Drawing()
    boxes, scores = _yolo(d)
    return d.finished({"predictions": d.op("Concat", boxes, scores, axis=2)})


def yolo_with_suppression() -> Any:
    """The same, sorted out by the model."""
    d = Drawing()
    boxes, scores = _yolo(d)
    scores = d.op("Mul", scores, d.const(np.float32(2)))
    kept = _kept(d, boxes, d.op("Transpose", scores, perm=[0, 2, 1]))
    return d.finished(kept, [FLOAT, FLOAT, INT64])


def retinanet() -> Any:
    """A pyramid of features, from each level the best boxes by ``TopK``."""
    d = Drawing()
    x = d.input("image", 1, 3, 32, 32)
    fine, coarse = _backbone(d, x, 8, 12, 16)[1:]
    top = d.conv2(coarse, 16, 8, kernel=1)
    up = d.op("Resize", top, "", d.const(np.array([1, 1, 2, 2], np.float32)), mode="nearest",
              coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    levels = [d.op("Add", d.conv2(fine, 12, 8, kernel=1), up), top]
    found: list[list[str]] = []
    for level, size in zip(levels, (8, 4), strict=True):
        logits = _rows(d, d.conv2(d.conv_relu(level, 8, 8), 8, ANCHORS * CLASSES), CLASSES)
        offsets = _rows(d, d.conv2(d.conv_relu(level, 8, 8), 8, ANCHORS * 4), 4)
        boxes = _decoded(d, offsets, ANCHORS * size * size)
        scores = d.op("Reshape", d.op("Sigmoid", logits), d.ints(-1))
        best, places = d.op("TopK", scores, d.ints(10), outputs=2, axis=0)
        things = d.op("Mod", places, d.one(CLASSES))
        where = d.op("Div", places, d.one(CLASSES))
        found.append([d.op("Gather", boxes, where, axis=1), best, things])
    boxes, scores, labels = (
        d.op("Concat", *parts, axis=axis)
        for parts, axis in zip(zip(*found, strict=True), (1, 0, 0), strict=True)
    )
    return d.finished({"boxes": boxes, "scores": scores, "labels": labels}, [FLOAT, FLOAT, INT64])


def crnn() -> Any:
    """Columns of a line of text through an LSTM in both directions; the best letter of each."""
    d = Drawing()
    hidden, letters = 8, 11
    x = d.input("line", 1, 1, 16, 40)
    for before, after in ((1, 8), (8, 12), (12, 16)):
        x = d.conv_relu(x, before, after)
        x = d.op("MaxPool", x, kernel_shape=[2, 1], strides=[2, 1])
    x = d.op("Relu", d.op("Conv", x, d.scaled(16, 16, 2, 1), d.normal(16)))
    x = d.op("Transpose", d.op("Squeeze", x, d.ints(2)), perm=[2, 0, 1])
    weights = [d.scaled(2, 4 * hidden, n) for n in (16, hidden)]
    states, *_ = d.op(
        "LSTM", x, *weights, d.normal(2, 8 * hidden),
        outputs=3, hidden_size=hidden, direction="bidirectional",
    )  # fmt: skip
    rows = d.view(d.op("Transpose", states, perm=[0, 2, 1, 3]), d.extent(x, 0), 1, 2 * hidden)
    logits = d.op("Softmax", d.linear(rows, 2 * hidden, letters), axis=-1)
    best = d.op("ArgMax", logits, axis=-1, keepdims=0)
    return d.finished({"shares": logits, "letters": best}, [FLOAT, INT64])


def dbnet() -> Any:
    """Where text is: levels resized to one size, and maps of the image's size from them."""
    d = Drawing()
    image = d.input("image", 1, 3, "height", "width")
    levels = _backbone(d, image, 8, 12, 16, 16)
    sides = [d.conv2(x, w, 8, kernel=1) for x, w in zip(levels[1:], (12, 16, 16), strict=True)]
    size = d.op("Slice", d.op("Shape", sides[0]), d.ints(2), d.ints(4), d.ints(0))
    target = d.op("Concat", d.ints(1, 8), size, axis=0)
    joined = [sides[0]] + [
        d.op("Resize", x, "", "", target, mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric")
        for x in sides[1:]
    ]  # fmt: skip
    x = d.conv_relu(d.op("Concat", *joined, axis=1), 24, 8)
    for after in (8, 1):
        x = d.op("ConvTranspose", x, d.scaled(8, after, 2, 2), d.normal(after), strides=[2, 2])
        x = d.op("Relu", x) if after > 1 else d.op("Sigmoid", x)
    return d.finished({"shares": x})
