"""One bundle for all tests that only read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_passes.search_options import SearchOptions
from tvm_ios.api.bundle import bundle_model
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.policies.policy import Limits


@pytest.fixture(scope="session")
def folder(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the small Inception block, with few candidates so that it is made quickly."""
    options = SearchOptions(lanes=2, cache=cache, limits=Limits(pruning=Pruning(1, 3)))
    path = tmp_path_factory.mktemp("bundle") / "block"
    report = bundle_model(
        "inception_block",
        path,
        options=options,
        policies=("greedy", "ios-both"),
        draw_weights=True,
        max_merges=6,
        max_fused=0,
    )
    assert (report.units, report.merges) == (17, 6)
    return path
