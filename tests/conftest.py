"""What all tests share: an environment that no test's outcome depends on."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.brief import compile_quickly, search_ranges_briefly, take_first_samples
from tests.fast_run import declare_fast, examples, is_fast

# TVM reads this once, when its thread pool starts.
os.environ.setdefault("TVM_NUM_THREADS", "2")


def pytest_configure(config: pytest.Config) -> None:
    """Before any module of tests is imported."""
    # Collecting garbage takes a twentieth of a run otherwise.
    gc.set_threshold(100_000, 20, 100)
    if config.option.markexpr == "not slow":
        declare_fast()
    # An example of some milliseconds takes seconds on a busy machine.
    settings.register_profile("no deadline", examples(100), deadline=None)
    settings.load_profile("no deadline")


@pytest.fixture(scope="session", autouse=True)
def quick_searches() -> Iterator[None]:
    """Searches beside other tests need not wait for quiet moments, nor for optimised code."""
    with pytest.MonkeyPatch.context() as patch:
        take_first_samples(patch.setattr)
        if is_fast():
            compile_quickly(patch.setattr)
            search_ranges_briefly(patch.setattr)
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


@pytest.fixture
def hearing() -> Iterator[None]:
    """Ctrl-C raises, also where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def kernels_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of compiled kernels for all tests of a run."""
    return tmp_path_factory.mktemp("kernels")
