from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tvm_ios.models.bare_graph import BareGraph, load_bare_graph


@pytest.fixture
def published() -> Callable[[str], BareGraph]:
    """The block graphs that the published implementation schedules, where they are at hand."""
    repository = Path(__file__).resolve().parents[2]
    shared = Path(os.environ.get("TVM_IOS_SHARED", repository.parent / "shared"))
    folder = shared / "data" / "ios-graphs"
    if not folder.is_dir():
        pytest.skip("the published block graphs are not here: set TVM_IOS_SHARED")
    return lambda name: load_bare_graph(folder / f"{name}.json")
