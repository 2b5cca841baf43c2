"""Each refusal of the table says what the documentation's page says that it does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.refusal_table.choices import CHOICES
from tests.refusal_table.page import PAGE, page_of
from tests.refusal_table.rows import SECTIONS
from tests.refusal_table.running import Row, line_of, make_sound_files


def _rows(sections: Mapping[str, list[Row]]) -> dict[str, Row]:
    return {f"{section}: {row.what}": row for section, rows in sections.items() for row in rows}


QUICK = _rows(CHOICES)
SLOW = {name: row for name, row in _rows(SECTIONS).items() if name not in QUICK}


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files in which nothing is wrong."""
    folder = tmp_path_factory.mktemp("refusals") / "sound"
    make_sound_files(folder)
    return folder


@pytest.mark.parametrize("row", QUICK.values(), ids=QUICK)
def test_it_is_refused_at_once_as_the_page_says(row: Row, sound: Path, tmp_path: Path) -> None:
    _require_line(line_of(row, sound, tmp_path / "folder"))


@pytest.mark.slow
@pytest.mark.parametrize("row", SLOW.values(), ids=SLOW)
def test_it_is_refused_as_the_page_says(row: Row, sound: Path, tmp_path: Path) -> None:
    _require_line(line_of(row, sound, tmp_path / "folder"))


def _require_line(line: str) -> None:
    assert line in PAGE.read_text().splitlines(), "run python -m tests.refusal_table"


def test_the_page_has_these_rows() -> None:
    lines = iter(PAGE.read_text().splitlines())
    starts = {
        section: [f"| {row.what} | `{row.command}` | " for row in rows]
        for section, rows in SECTIONS.items()
    }
    wanted = page_of(starts).splitlines()
    assert len(wanted) == len(PAGE.read_text().splitlines())
    assert all(line.startswith(start) for start, line in zip(wanted, lines, strict=True))
