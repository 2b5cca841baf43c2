"""What ``pytest -m "not slow"`` does less of: random examples, optimising kernels, alike cases."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import cycle, product
from typing import Any

import pytest
from hypothesis import settings

#: Set for the processes of a fast run, those that tests start too.
_VARIABLE = "TVM_IOS_FAST_TESTS"
_FEWEST = 5


def declare_fast() -> None:
    """Make this run, whose tests are not imported yet, a fast one."""
    os.environ[_VARIABLE] = "1"


def is_fast() -> bool:
    """Whether slow tests are left out."""
    return _VARIABLE in os.environ


def examples(count: int, **options: Any) -> settings:
    """So many random examples, or in a fast run a sixth of them, but at least five."""
    drawn = min(count, max(count // 6, _FEWEST)) if is_fast() else count
    return settings(max_examples=drawn, **options)


def one_in(count: int, cases: Iterable[Any], *, several: bool = False) -> list[Any]:
    """Parameters of a test, of which a fast run takes one in so many; the others are slow.

    Parameters
    ----------
    several
        Whether each case is a tuple of several parameters.
    """
    chosen = [*cases]
    return only(chosen[::count], chosen, several=several)


def only(fast: Iterable[Any], cases: Iterable[Any], *, several: bool = False) -> list[Any]:
    """Parameters of a test, of which a fast run takes these alone; see :func:`one_in`."""
    taken, chosen = [*fast], [*cases]
    unknown = [case for case in taken if case not in chosen]
    assert not unknown, f"these are no cases: {unknown}"
    return [
        pytest.param(
            *(case if several else (case,)), marks=() if case in taken else pytest.mark.slow
        )
        for case in chosen
    ]


def crossed(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """All pairs, of which a fast run takes each of the first with one of the second in turn."""
    ones, others = [*first], [*second]
    return only(zip(ones, cycle(others), strict=False), product(ones, others), several=True)
