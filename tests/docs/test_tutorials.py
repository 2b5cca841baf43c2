"""The tutorials run from top to bottom (by nbmake)."""

from __future__ import annotations

import ast
import json
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


# Fast tests only see that what they import is there.
@pytest.mark.slow
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


@pytest.mark.parametrize("notebook", TUTORIALS, ids=lambda path: path.stem)
def test_what_a_tutorial_imports_is_there(notebook: Path) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    imports = [
        node
        for text in code
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert imports
    for node in imports:
        exec(ast.unparse(node), {})


def test_there_are_tutorials() -> None:
    assert TUTORIALS
    assert len(NOTEBOOKS) == len(TUTORIALS) + 1
