"""Dynamic models and detectors compute what ONNX Runtime does, in the way that the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dynamic_models.running import EXAMPLES, PAGE, line_of

ALL = {name: example for examples in EXAMPLES.values() for name, example in examples.items()}

#: The fast tests run a dynamic one, and one whose end runs elsewhere.
FAST = ("decoder with a cache", "YOLO with suppression")


@pytest.mark.parametrize(
    "name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in ALL]
)
def test_it_runs_as_the_page_says(name: str, tmp_path: Path) -> None:
    line = line_of(name, ALL[name], tmp_path)
    assert line in PAGE.read_text().splitlines(), "run python -m tests.dynamic_models"


def test_the_page_has_these_models() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    names = [row.split(" | ")[0].removeprefix("| ") for row in rows]
    assert [name for name in names if name != "model"] == [*ALL]
