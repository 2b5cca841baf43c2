"""The tutorial about Relay runs from top to bottom, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "tutorials" / "03_relay_and_autotvm.ipynb"


@pytest.mark.slow
def test_the_cells_run(tmp_path: Path) -> None:
    cells = json.loads(TUTORIAL.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    (tmp_path / "tutorial.py").write_text("\n\n".join(code))
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(tmp_path / "tutorial.py")],
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for sentence in ("is for the target", "TVM is there: False", "scheduled as well"):
        assert sentence in done.stdout
