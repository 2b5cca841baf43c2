"""One bundle for all tests that only read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_passes.load import load_model
from relay_passes.measured import MeasuredSearch
from relay_passes.measuring_options import MeasuringOptions
from relay_passes.prepare import prepare
from tvm_ios.api.bundle.write import redrawn, write_bundle
from tvm_ios.ios.endings import Pruning


@pytest.fixture(scope="session")
def folder(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the small Inception block, with few candidates so that it is made quickly."""
    loaded, drawn = redrawn(load_model("inception_block"), 0)
    prepared = prepare(loaded.module, loaded.name)
    options = MeasuringOptions(lanes=2, cache=cache, pruning=Pruning(1, 3))
    path = tmp_path_factory.mktemp("bundle") / "block"
    made = write_bundle(
        loaded,
        MeasuredSearch(prepared, options),
        path,
        policies=("greedy", "ios-both"),
        drawn=drawn,
        max_merges=6,
        max_fused=0,
        progress=lambda *_: None,
    )
    assert (made.units, made.merges) == (17, 6)
    return path
