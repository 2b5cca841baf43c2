"""Models of dynamic batches, sequences and images."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tests.dynamic_models.drawing import FLOAT, INT64, Drawing

WIDTH, HEADS, WORDS = 16, 2, 50


def _heads(d: Drawing, x: str, batch: str, length: str) -> str:
    split = d.view(x, batch, length, HEADS, WIDTH // HEADS)
    return d.op("Transpose", split, perm=[0, 2, 1, 3])


def _attention(d: Drawing, query: str, key: str, value: str, mask: str, x: str) -> str:
    """Attention of (batch, heads, length, width) with an added mask; ``x`` has the shape."""
    turned = d.op("Transpose", key, perm=[0, 1, 3, 2])
    scale = d.const(np.float32(np.sqrt(WIDTH // HEADS)))
    scores = d.op("Add", d.op("Div", d.op("MatMul", query, turned), scale), mask)
    mixed = d.op("MatMul", d.op("Softmax", scores, axis=-1), value)
    together = d.op("Transpose", mixed, perm=[0, 2, 1, 3])
    return d.linear(d.view(together, d.extent(x, 0), d.extent(x, 1), WIDTH), WIDTH, WIDTH)


def _masked(d: Drawing, kept: str) -> str:
    """A large negative number wherever a mask of ones and zeros is zero."""
    dropped = d.op("Sub", d.const(np.float32(1)), d.op("Cast", kept, to=FLOAT))
    return d.op("Mul", dropped, d.const(np.float32(-1e4)))


def bert(layers: int = 2) -> Any:
    """An encoder of some layers with an attention mask, and its pooler."""
    d = Drawing()
    ids = d.input("input_ids", "batch", "sequence", dtype=INT64)
    kept = d.input("attention_mask", "batch", "sequence", dtype=INT64)
    batch, length = d.extent(ids, 0), d.extent(ids, 1)
    places = d.op("Slice", d.const(np.arange(32)[None]), d.ints(0), length, d.ints(1))
    words = d.op("Gather", d.normal(WORDS, WIDTH), ids)
    x = d.layer_norm(d.op("Add", words, d.op("Gather", d.normal(32, WIDTH), places)), WIDTH)
    mask = _masked(d, d.op("Unsqueeze", kept, d.ints(1, 2)))
    for _ in range(layers):
        query, key, value = (_heads(d, d.linear(x, WIDTH, WIDTH), batch, length) for _ in range(3))
        x = d.layer_norm(d.op("Add", x, _attention(d, query, key, value, mask, x)), WIDTH)
        wide = d.gelu(d.linear(x, WIDTH, 4 * WIDTH))
        x = d.layer_norm(d.op("Add", x, d.linear(wide, 4 * WIDTH, WIDTH)), WIDTH)
    first = d.op("Gather", x, d.one(0), axis=1)
    pooled = d.op("Tanh", d.op("Gemm", first, d.scaled(WIDTH, WIDTH), d.normal(WIDTH), transB=1))
    return d.finished({"last_hidden_state": x, "pooler_output": pooled})


def decoder() -> Any:
    """A decoder's layer with a cache of keys and values, rotary positions and a causal mask."""
    d = Drawing()
    width = WIDTH // HEADS
    ids = d.input("input_ids", "batch", "new", dtype=INT64)
    past = [d.input(f"past_{kind}", "batch", HEADS, "past", width) for kind in ("key", "value")]
    batch, new = d.extent(ids, 0), d.extent(ids, 1)
    before = d.op("Gather", d.op("Shape", past[0]), d.one(2), axis=0)
    total = d.op("Add", before, d.op("Squeeze", new, d.ints(0)))
    x = d.op("Gather", d.normal(WORDS, WIDTH), ids)
    normal = d.layer_norm(x, WIDTH)
    places = d.op("Range", before, total, d.one(1))
    rates = d.const(1e4 ** (-np.arange(0, width, 2, dtype=np.float32) / width)[None])
    angles = d.op("Mul", d.op("Unsqueeze", d.op("Cast", places, to=FLOAT), d.ints(1)), rates)
    angles = d.op("Concat", angles, angles, axis=-1)
    cosine, sine = d.op("Cos", angles), d.op("Sin", angles)

    def rotated(value: str) -> str:
        half = width // 2
        low, high = d.op("Split", value, d.ints(half, half), outputs=2, axis=-1)
        turned = d.op("Concat", d.op("Neg", high), low, axis=-1)
        return d.op("Add", d.op("Mul", value, cosine), d.op("Mul", turned, sine))

    query, key, value = (_heads(d, d.linear(normal, WIDTH, WIDTH), batch, new) for _ in range(3))
    key = d.op("Concat", past[0], rotated(key), axis=2)
    value = d.op("Concat", past[1], value, axis=2)
    all_places = d.op("Range", d.one(0), total, d.one(1))
    seen = d.op("LessOrEqual", all_places, d.op("Unsqueeze", places, d.ints(1)))
    mixed = _attention(d, rotated(query), key, value, _masked(d, seen), x)
    x = d.op("Add", x, mixed)
    logits = d.linear(d.layer_norm(x, WIDTH), WIDTH, WORDS)
    return d.finished({"logits": logits, "present_key": key, "present_value": value})


def unet() -> Any:
    """Down and up again: what comes up is resized to what it is joined with."""
    d = Drawing()
    x = d.input("image", 1, 3, "height", "width")
    skips: list[str] = []
    channels = [3, 8, 12, 16]
    for before, after in pairwise(channels):
        x = d.conv_relu(x, before, after)
        skips.append(x)
        x = d.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = d.conv_relu(x, 16, 16)
    below = 16
    for skip, width in zip(skips[::-1], channels[:0:-1], strict=True):
        sizes = d.op("Slice", d.op("Shape", skip), d.ints(2), d.ints(4), d.ints(0))
        target = d.op("Concat", d.ints(1, below), sizes, axis=0)
        up = d.op(
            "Resize", x, "", "", target,
            mode="linear", coordinate_transformation_mode="pytorch_half_pixel",
        )  # fmt: skip
        x = d.conv_relu(d.op("Concat", up, skip, axis=1), below + width, width)
        below = width
    return d.finished({"mask": d.op("Sigmoid", d.conv2(x, below, 1, kernel=1))})


def tagger() -> Any:
    """A bidirectional LSTM over words, from a state of as many zeros as there are sentences."""
    d = Drawing()
    hidden = 8
    ids = d.input("words", "batch", "sequence", dtype=INT64)
    words = d.op("Transpose", d.op("Gather", d.normal(WORDS, WIDTH), ids), perm=[1, 0, 2])
    shape = d.op("Concat", d.ints(2), d.extent(ids, 0), d.ints(hidden), axis=0)
    state = d.op("ConstantOfShape", shape)
    weights = [d.scaled(2, 4 * hidden, n) for n in (WIDTH, hidden)]
    states, *_ = d.op(
        "LSTM", words, *weights, d.normal(2, 8 * hidden), "", state, state,
        outputs=3, hidden_size=hidden, direction="bidirectional",
    )  # fmt: skip
    turned = d.op("Transpose", states, perm=[2, 0, 1, 3])
    flat = d.view(turned, d.extent(ids, 0), d.extent(ids, 1), 2 * hidden)
    return d.finished({"tags": d.op("LogSoftmax", d.linear(flat, 2 * hidden, 5), axis=-1)})


def speech() -> Any:
    """Spectra by convolutions with waves, a filter bank, and convolutions in time."""
    d = Drawing()
    samples, frame, bands = d.input("samples", 1, "length"), 32, 10
    waves = np.exp(2j * np.pi * np.outer(np.arange(frame // 2), np.arange(frame)) / frame)
    window = np.hanning(frame)
    x = d.op("Unsqueeze", samples, d.ints(1))
    x = d.op("Pad", x, d.ints(0, 0, frame // 2, 0, 0, frame // 2), mode="reflect")
    parts = [d.const((part(waves) * window)[:, None]) for part in (np.real, np.imag)]
    squares = [
        d.op("Pow", d.op("Conv", x, part, strides=[8]), d.const(np.float32(2))) for part in parts
    ]
    power = d.op("Transpose", d.op("Add", *squares), perm=[0, 2, 1])
    bank = d.op("MatMul", power, d.const(d.rng.uniform(0, 1, (frame // 2, bands))))
    loud = d.op("Log", d.op("Add", bank, d.const(np.float32(1e-3))))
    mean = d.op("ReduceMean", loud, axes=[1])
    x = d.op("Transpose", d.op("Sub", loud, mean), perm=[0, 2, 1])
    for before, after, stride in ((bands, WIDTH, 1), (WIDTH, WIDTH, 2)):
        weight, bias = d.scaled(after, before, 3), d.normal(after)
        x = d.gelu(d.op("Conv", x, weight, bias, pads=[1, 1], strides=[stride]))
    x = d.op("Transpose", x, perm=[0, 2, 1])
    letters = d.op("LogSoftmax", d.linear(d.layer_norm(x, WIDTH), WIDTH, 12), axis=-1)
    return d.finished({"letters": letters})
