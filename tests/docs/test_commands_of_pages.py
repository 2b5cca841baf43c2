"""The commands of all pages: each is parsed by its program, and run unless a list says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.command_check import fault
from tests.docs.pages import PAGES, ROOT, Command, blocks, commands, page_id

#: Of fenced blocks; what each is, a test below or beside this file reads.
LANGUAGES = {
    *("sh", "bash", "console"),
    *("python", "toml", "json", "cpp"),
    # Drawings, and what programs print.
    *("", "text"),
    # Directives of Sphinx, which `make docs` reads.
    *("{toctree}", "{eval-rst}"),
}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_blocks_say_what_they_are(page: Path) -> None:
    assert {block.language for block in blocks(page)} <= LANGUAGES


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_commands_are_what_their_programs_take(page: Path) -> None:
    faults = [(command.line, fault(command)) for command in commands(page)]
    assert [pair for pair in faults if pair[1] is not None] == []


@pytest.mark.parametrize(
    "line",
    [
        "tvm-ios fly squeezenet",
        "tvm-ios optimize",
        "tvm-ios optimize squeezenet --threads 2",
        "tvm-ios optimize squeezenet --measure fully",
        "tvm-ios optimize squeezenet -r many",
        "tvm-ios stats one two",
        "python benchmarks/search.py --weather",
        "python benchmarks/weather.py",
        "python -m tests.weather",
        "make weather",
        "pip install '.[weather]'",
    ],
)
def test_what_no_program_takes_is_found(line: str) -> None:
    assert fault(Command(line, shown=True))


def test_commands_are_found_in_blocks_and_sentences() -> None:
    found = commands(ROOT / "README.md")
    assert Command("tvm-ios memory darts", shown=True) in found
    assert Command("make docs", shown=False) in found
    assert len(found) > 15
