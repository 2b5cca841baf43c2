"""The scripts of ``benchmarks``: they are all listed, and the fields of their results described."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
README = (BENCHMARKS / "README.md").read_text()
#: What scripts share has no command line.
SCRIPTS = sorted(
    path.relative_to(BENCHMARKS).as_posix()
    for path in BENCHMARKS.rglob("*.py")
    if '__name__ == "__main__"' in path.read_text()
)
RESULTS = sorted((BENCHMARKS / "results").glob("*.json"))
GENERAL, *SECTIONS = re.split("^### ", README, flags=re.MULTILINE)


def words(text: str) -> set[str]:
    return set(re.findall("`([^`]+)`", text))


def fields(content: Any) -> set[str]:
    """Keys of an object, and of those in its lists; the keys of inner objects are other names."""
    if isinstance(content, list):
        return {field for item in content for field in fields(item)}
    if not isinstance(content, dict):
        return set()
    return {*content, *(f for v in content.values() if isinstance(v, list) for f in fields(v))}


def test_every_script_is_listed() -> None:
    first_cells = "".join(re.findall(r"^\|[^|]*", README, re.MULTILINE))
    listed = set(re.findall(r"`([\w/]+\.py)`", first_cells))
    assert listed == {*SCRIPTS} - {"run_all.py", "papers/__main__.py"}


def test_what_make_bench_runs_is_the_first_table() -> None:
    first, *_ = README.split("to be run by name")
    table = re.findall(r"^\| `([\w/]+)\.py`", first, re.MULTILINE)
    named = re.findall(r'\("([\w.]+)", ', (BENCHMARKS / "run_all.py").read_text())
    assert [name.replace(".", "/") for name in named] == table


@pytest.mark.parametrize(
    "path", sorted((BENCHMARKS / "results").glob("*.json")), ids=lambda p: p.stem
)
def test_fields_of_results_are_described(path: Path) -> None:
    (section,) = (
        s for s in SECTIONS if any(map(path.match, re.findall(r"`(.*?)`", s.split("\n")[0])))
    )
    content = json.loads(path.read_text())
    names = fields(content) | fields(content.get("figures", []))
    assert names - {"benchmark"} <= words(GENERAL) | words(section)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_help(script: str) -> None:
    module = f"benchmarks.{script.removesuffix('.py').replace('/', '.')}"
    command = [sys.executable, "-m", module, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=BENCHMARKS.parent)
    assert done.returncode == 0, done.stderr
    # Newer ones of Python name the module and not the file.
    assert re.match(rf"usage: .*{Path(script).stem}", done.stdout)
