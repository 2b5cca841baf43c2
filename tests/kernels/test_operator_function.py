"""Functions of one operator."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from runtime_ext.kernels.operator_function import astype


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("hasty_threads")
def test_threads_make_them_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        functions = [pool.submit(astype, (2, n), "float16", "float32") for n in range(1, 65)]
    shapes = [tuple(map(int, f.result().params[0].ty.shape)) for f in functions]
    assert shapes == [(2, n) for n in range(1, 65)]
