"""Bundles of models with outputs that nothing computes, no elements, and names of any kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from relay_passes.search_options import SearchOptions
from runtime_ext.bundle.contents import read_bundle
from tests.interface_models import WHAT, write_interface_model
from tvm_ios.api.bundle import bundle_model

_SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "what", [w if w == "no elements" else pytest.param(w, marks=_SLOW) for w in WHAT]
)
def test_the_programs_of_a_bundle_compute_what_tvm_does(
    what: str, cache: Path, tmp_path: Path
) -> None:
    path, feeds, expected = write_interface_model(what, tmp_path)
    folder = tmp_path / "bundle"
    options = SearchOptions(lanes=2, cache=cache)
    bundle_model(path, folder, options=options, policies=("ios-both",), with_tvm=True)
    bundle = read_bundle(folder)
    assert list(bundle.inputs) == list(feeds)
    assert [a.shape for a in bundle.reference_outputs] == [a.shape for a in expected]
    done = subprocess.run(
        [sys.executable, str(folder / "run.py"), "--json"],
        env={name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    rows = {row["policy"]: row for row in json.loads(done.stdout)["policies"]}
    assert rows["ios-both"]["max_rel_error"] <= 1e-6
