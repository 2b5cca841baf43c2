"""Copies of many axes are copies of four."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.units.storing import in_few_axes
from runtime_ext.units.values import Stored


def view(stored: Stored, memory: np.ndarray) -> np.ndarray:
    strides = [stride * memory.itemsize for stride in stored.strides]
    return np.lib.stride_tricks.as_strided(memory[stored.offset :], stored.shape, strides)


def strides_in_order(shape: tuple[int, ...], order: list[int]) -> tuple[int, ...]:
    """Of a tensor whose axes lie in memory in this order, the last one closest."""
    return tuple(
        math.prod(shape[b] for b in order[order.index(a) + 1 :]) for a in range(len(shape))
    )


@given(
    st.lists(st.integers(1, 3), min_size=5, max_size=7).map(tuple),
    st.randoms(use_true_random=False),
)
def test_the_same_elements_are_copied(shape: tuple[int, ...], random: object) -> None:
    orders = [list(range(len(shape))) for _ in range(2)]
    random.shuffle(orders[0])
    value, target = (
        Stored(number, shape, strides_in_order(shape, order), 5)
        for number, order in enumerate(orders)
    )
    source = np.arange(math.prod(shape) + 5)
    place = np.zeros_like(source)
    for part, there in in_few_axes(value, target):
        assert len(part.shape) == 4
        view(there, place)[...] = view(part, source)
    assert np.array_equal(view(target, place), view(value, source))
