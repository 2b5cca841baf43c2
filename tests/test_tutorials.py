"""The tutorials run from top to bottom (by nbmake)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: The one about Relay needs another TVM: tests/relay runs it.
ELSEWHERE = "03_relay_and_autotvm"
NOTEBOOKS = sorted((Path(__file__).parents[1] / "tutorials").glob("*.ipynb"))
TUTORIALS = [notebook for notebook in NOTEBOOKS if notebook.stem != ELSEWHERE]


@pytest.mark.parametrize("notebook", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_runs(notebook: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--nbmake", str(notebook)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=notebook.parent)
    assert result.returncode == 0, result.stdout[-4000:]


def test_there_are_tutorials() -> None:
    assert TUTORIALS
    assert len(NOTEBOOKS) == len(TUTORIALS) + 1
