"""The tutorials run from top to bottom (by nbmake)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: The one about Relay needs another TVM: tests/relay runs it.
ELSEWHERE = "03_relay_and_autotvm"
#: What a kernel runs before the first cell: it need not wait for quiet moments.
BRIEF = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.brief import shorten
shorten()
"""
NOTEBOOKS = sorted((ROOT / "tutorials").glob("*.ipynb"))
TUTORIALS = [notebook for notebook in NOTEBOOKS if notebook.stem != ELSEWHERE]


@pytest.mark.parametrize("notebook", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_runs(notebook: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--nbmake", str(notebook)]
    startup = tmp_path / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "brief.py").write_text(BRIEF)
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path)}
    result = subprocess.run(
        command, capture_output=True, text=True, cwd=notebook.parent, env=environment
    )
    assert result.returncode == 0, result.stdout[-4000:]


def test_there_are_tutorials() -> None:
    assert TUTORIALS
    assert len(NOTEBOOKS) == len(TUTORIALS) + 1
