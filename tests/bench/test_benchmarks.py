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
#: What scripts share.
HELPERS = ("report.py", "in_turn.py")
SCRIPTS = sorted(path.name for path in BENCHMARKS.glob("*.py") if path.name not in HELPERS)
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
    listed = set(re.findall(r"`(\w+\.py)`", "".join(re.findall(r"^\|[^|]*", README, re.MULTILINE))))
    assert listed == {*SCRIPTS} - {"run_all.py"}


def test_what_make_bench_runs_is_the_first_table() -> None:
    first, *_ = README.split("to be run by name")
    table = re.findall(r"^\| `(\w+\.py)`", first, re.MULTILINE)
    assert re.findall(r'"(\w+\.py)", ', (BENCHMARKS / "run_all.py").read_text()) == table


@pytest.mark.parametrize(
    "path", sorted((BENCHMARKS / "results").glob("*.json")), ids=lambda p: p.stem
)
def test_fields_of_results_are_described(path: Path) -> None:
    name = "explain_*.json" if path.stem.startswith("explain") else path.name
    (section,) = (s for s in SECTIONS if f"`{name}`" in s.splitlines()[0])
    content = json.loads(path.read_text())
    names = fields(content) | fields(content.get("figures", []))
    assert names - {"benchmark"} <= words(GENERAL) | words(section)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_help(script: str) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {script}")
