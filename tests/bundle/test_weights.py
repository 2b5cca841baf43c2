"""Constants of a bundle: stored once, or drawn again bit by bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from runtime_ext.bundle.weights import Draw, load_weights, save_weights
from runtime_ext.execution.buffers import content_key
from tests.refusals import refused
from tvm_ios.errors import UserError

LARGE = (64, 3, 7, 7)


def normal(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Numbers around 1 with a deviation of 3."""
    return (np.random.default_rng(seed).standard_normal(shape) * 3 + 1).astype(np.float32)


@given(st.integers(0, 2**32))
def test_a_draw_is_like_what_it_stands_for(seed: int) -> None:
    draw = Draw.like(normal(LARGE), seed)
    assert draw is not None
    drawn = draw.array()
    assert drawn.shape == LARGE
    assert drawn.dtype == np.float32
    assert drawn.mean() == pytest.approx(1, abs=0.2)
    assert drawn.std() == pytest.approx(3, rel=0.05)
    assert (drawn == draw.array()).all()


def test_a_draw_is_the_same_on_every_machine() -> None:
    """The sum of bits would change if NumPy's stream or our arithmetic did."""
    drawn = Draw((4096,), "float32", 0.5, 2.0, 1234).array()
    bits = int(drawn.view(np.uint32).astype(np.uint64).sum())
    assert bits == 8119541390889


def test_seeds_and_contents_draw_differently() -> None:
    draws = [Draw.like(normal(LARGE, a), b) for a, b in ((0, 0), (0, 1), (1, 0))]
    arrays = [draw.array().tobytes() for draw in draws if draw is not None]
    assert len(set(arrays)) == 3


def test_small_or_whole_constants_are_kept() -> None:
    assert Draw.like(normal((3, 4)), 0) is None
    assert Draw.like(np.arange(10_000), 0) is None


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    draw = Draw.like(normal(LARGE), 0)
    assert draw is not None
    kept = [normal((3, 4)), np.arange(5), np.array(2.5, np.float64), np.array([True, False])]
    arrays = {content_key(array): array for array in (*kept, draw.array())}
    drawn = {content_key(draw.array()): draw}
    weights = load_weights(tmp_path, save_weights(tmp_path, arrays, drawn))
    assert weights.file.stat().st_size < 1000, "what is drawn is not stored"
    for key, array in arrays.items():
        stored = weights[key]
        assert stored.dtype == array.dtype
        assert (stored == array).all()


def test_what_is_not_right_is_refused(tmp_path: Path) -> None:
    array = normal((3, 4))
    weights = load_weights(tmp_path, save_weights(tmp_path, {content_key(array): array}, {}))
    with refused(UserError, "0" * 12):
        _ = weights["0" * 64]
    data = bytearray(weights.file.read_bytes())
    data[-1] ^= 1
    weights.file.write_bytes(data)
    with refused(UserError, weights.file, "damaged"):
        _ = load_weights(tmp_path, {})[content_key(array)]
    weights.file.write_bytes(b"\xff" * 40)
    with refused(UserError, weights.file, "read"):
        _ = load_weights(tmp_path, {})[content_key(array)]
    # A draw that gives something else than when the bundle was made.
    draw = Draw.like(normal(LARGE), 0)
    assert draw is not None
    other = replace(weights, drawn={content_key(draw.array()): replace(draw, seed=draw.seed + 1)})
    with refused(UserError, "damaged"):
        _ = other[content_key(draw.array())]
