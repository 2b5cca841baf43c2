"""What all tests share: an environment that no test's outcome depends on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from brief import take_first_samples
from hypothesis import settings

# TVM reads this once, when its thread pool starts.
os.environ.setdefault("TVM_NUM_THREADS", "2")

# An example of some milliseconds takes seconds on a busy machine.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session", autouse=True)
def first_samples() -> Iterator[None]:
    """Searches beside other tests need not wait for quiet moments."""
    with pytest.MonkeyPatch.context() as patch:
        take_first_samples(patch.setattr)
        yield


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Kernels and logs of this run only: each kernel is compiled once, none is taken on trust."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # All workers share one.
        folder = folder.parent
    folder /= "cache"
    before = os.environ.get("TVM_IOS_CACHE")
    os.environ["TVM_IOS_CACHE"] = str(folder)
    yield folder
    if before is None:
        del os.environ["TVM_IOS_CACHE"]
    else:
        os.environ["TVM_IOS_CACHE"] = before
