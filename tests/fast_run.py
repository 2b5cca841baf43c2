"""What ``pytest -m "not slow"`` does less of: random examples, and optimising kernels."""

from __future__ import annotations

import os
from typing import Any

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
    """So many random examples, or in a fast run a quarter of them, but at least five."""
    drawn = min(count, max(count // 4, _FEWEST)) if is_fast() else count
    return settings(max_examples=drawn, **options)
