"""The commands of all pages: each is parsed by its program, and run unless a list says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import tvm_ios
from tests.docs.command_check import fault
from tests.docs.not_run import NOT_RUN, reason_not_to_run
from tests.docs.pages import PAGES, ROOT, Command, blocks, commands, page_id, python_of
from tests.docs.scratch import EXIT_CODES, Scratch

#: Of fenced blocks; what each is, a test below or beside this file reads.
LANGUAGES = {
    *("sh", "bash", "console"),
    *("python", "toml", "json", "cpp"),
    # Drawings, and what programs print.
    *("", "text"),
    # Directives of Sphinx, which `make docs` reads.
    *("{toctree}", "{eval-rst}", "{literalinclude}"),
}


#: Pages whose Python runs elsewhere.
PYTHON_ELSEWHERE = {
    "docs/relay.md": "it needs a TVM with Relay: tests/relay/test_docs.py",
    "docs/devices.md": "tests/cli/test_timing_devices.py installs it as a package",
    "docs/deploy.md": "it needs a package's network: tests/execution/test_states.py",
    "docs/doors.md": "it needs torch, an extra: tests/torch_compile/test_torch_compile.py",
    "docs/memory_planner.md": "it needs ExecuTorch: tests/memory/test_torch_executorch.py",
    "docs/own_policy.md": "its commands below run with it as a package",
}


def to_run(page: Path) -> list[Command]:
    """The commands of a page that can be run: with all arguments, and that no list excuses."""
    runs = (c for c in commands(page) if c.complete and reason_not_to_run(c) is None)
    return [c for c in runs if fault(Command(c.line, shown=True)) is None]


#: Searches on described devices take a second; the slow tests run them too, among their page's.
QUICK = (
    "tvm-ios models",
    "tvm-ios stats lstm_small --json",
    "tvm-ios schedule inception_block --cost v100",
    "tvm-ios schedule squeezenet --pareto",
)


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
        "python -m benchmarks.searching.search --weather",
        "python -m benchmarks.searching.weather",
        "python -m benchmarks.weather.search",
        "python docs/make/weather.py",
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


@pytest.mark.parametrize("line", QUICK)
def test_quick_commands_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert any(command.line == line for page in PAGES for command in commands(page))
    monkeypatch.chdir(tmp_path)
    outcome = tvm_ios(*Command(line, shown=True).words[1:])
    assert outcome.code == 0, outcome.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if to_run(page) or python_of(page)], ids=page_id
)
def test_the_commands_and_the_python_of_a_page_run(page: Path, tmp_path: Path) -> None:
    """In order, in one folder; then the Python, in one process."""
    scratch = Scratch(tmp_path)
    for command in to_run(page):
        scratch.run_command(command.line, command.words)
    if page_id(page) not in PYTHON_ELSEWHERE:
        scratch.run_python(python_of(page))


def test_lists_of_exceptions_name_what_is_there() -> None:
    lines = {command.line: command for page in PAGES for command in commands(page)}
    reasons = {reason_not_to_run(command) for command in lines.values()}
    assert set(NOT_RUN.values()) <= reasons
    assert set(EXIT_CODES) <= {command.line for page in PAGES for command in to_run(page)}
    assert set(PYTHON_ELSEWHERE) <= {page_id(page) for page in PAGES if python_of(page)}
