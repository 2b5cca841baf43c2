"""Rewrite n-gram counts as comparisons of all windows with all n-grams."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.rewrites.steps import Steps, static_shape


def count_n_grams(steps: Steps) -> None:
    """Write ``TfIdfVectorizer`` of integers as comparisons and sums.

    It stays if an n-gram occurs twice, or if weights could be meant in the order of the n-grams or
    in that of the results, on which ONNX's text and its reference disagree.
    """
    (source,) = steps.node.inputs
    extents, pool = static_shape(source), np.array(steps.integers("pool_int64s"))
    indexes, weights = (steps.attributes.get(name, ()) for name in ("ngram_indexes", "weights"))
    mode = steps.attributes["mode"]
    if extents is None or not pool.size or source.dtype == ir.DataType.STRING:
        return
    if mode != "TF" and weights and list(indexes) != list(range(len(indexes))):
        return
    length = extents[-1]
    rows = steps.cast(steps.op("Reshape", source, steps.number([-1, length])), ir.DataType.INT64)
    borders = [*steps.integers("ngram_counts"), pool.size]
    count, first = max(indexes) + 1, 0
    parts: list[Any] = []
    for size, (begin, end) in enumerate(pairwise(borders), start=1):
        grams = pool[begin:end].reshape(-1, size)
        if len(np.unique(grams, axis=0)) < len(grams):
            return
        places = np.zeros((len(grams), count), np.float32)
        places[np.arange(len(grams)), indexes[first : first + len(grams)]] = 1
        first += len(grams)
        if not steps.attributes["min_gram_length"] <= size <= steps.attributes["max_gram_length"]:
            continue
        # Single numbers are counted once, whatever is skipped between several.
        skips = range(steps.attributes["max_skip_count"] + 1 if size > 1 else 1)
        windows = np.concatenate([_windows(length, size, skip + 1) for skip in skips])
        if not len(windows) or not len(grams):
            continue
        groups = steps.op("Gather", rows, steps.number(windows), axis=1)
        groups = steps.unsqueezed(groups, 2)
        same = steps.op("Cast", steps.op("Equal", groups, steps.number(grams)), to=1)
        hits = steps.summed(steps.reduced("ReduceMin", same, [3], keepdims=0), [1])
        parts.append(steps.op("MatMul", hits, steps.number(places)))
    if not parts:
        return
    total = parts[0]
    for part in parts[1:]:
        total = steps.op("Add", total, part)
    if mode == "IDF":
        total = steps.op("Min", total, steps.number(np.ones((), np.float32)))
    if mode != "TF" and weights:
        total = steps.op("Mul", total, steps.number(np.array(weights, np.float32)))
    steps.stand_for(steps.op("Reshape", total, steps.number([*extents[:-1], count])))


def _windows(length: int, size: int, step: int) -> Array:
    """Return the indices of all groups of ``size`` elements, ``step`` apart, in a row."""
    begins = np.arange(max(length - (size - 1) * step, 0))
    return begins[:, None] + np.arange(size) * step
