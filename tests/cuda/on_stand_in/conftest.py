"""Each check begins anew."""

import ctypes
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _recovered() -> Iterator[None]:
    yield
    ctypes.CDLL("libcuda.so.1").stand_in_recover()
