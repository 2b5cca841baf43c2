"""What the documents say is true: options of commands, results, policies, files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.makers import load_maker
from tvm_ios.cli.frame.commands import SUMMARIES, load_command
from tvm_ios.policies.registry import OURS

ROOT = Path(__file__).parents[2]
COMMANDS = {name: load_command(name) for name in SUMMARIES}
DOCUMENTS = sorted(
    path for place in (".", "docs", "benchmarks") for path in ROOT.glob(f"{place}/*.md")
)
IDS = [str(path.relative_to(ROOT)) for path in DOCUMENTS]


def test_the_documents_that_a_newcomer_reads_are_there() -> None:
    names = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/architecture.md"}
    assert names | {"docs/commands.md", "docs/networks.md"} <= set(IDS)


def test_commands_md_documents_every_command_and_option() -> None:
    maker = load_maker("commands")
    page = maker.PAGE.read_text()
    assert list(maker.find_faults(page)) == []
    wrong = page.replace("`--lanes`", "`--threads`") + "\n## tvm-ios fly\n"
    faults = " ".join(maker.find_faults(wrong))
    assert "is now: write it again" in faults
    assert "tells of `tvm-ios fly`" in faults
    examples = [line for name in COMMANDS for line in maker.EXAMPLES[name]]
    assert list(maker.known_outputs(page)) == examples


@pytest.mark.parametrize("name", ["networks", "memory", "papers", "cuda", "unit_kernels", "readme"])
def test_pages_of_measurements_are_what_was_measured(name: str) -> None:
    maker = load_maker(name)
    assert maker.PAGE.read_text() == maker.page()


def test_tables_of_results_are_what_was_measured() -> None:
    maker = load_maker("measurements")
    for name in maker.PAGES:
        assert (ROOT / "docs" / name).read_text() == maker.page(name)


def test_names_md_has_every_policy() -> None:
    page = (ROOT / "docs" / "names.md").read_text()
    assert [name for name in OURS if f"`{name}`" not in page] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_files_that_documents_name_exist(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    rooms = "tvm_ios|runtime_ext|relay_passes|tests|docs|benchmarks"
    named = re.findall(rf"`((?:{rooms})/[\w./]*)`", text)
    named += re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    for name in named:
        assert (ROOT / name).exists() or (document.parent / name).exists(), name


def _anchors(text: str) -> set[str]:
    """The ids of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE
    )
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_links_lead_to_headings(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    for name, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", text):
        page = document.parent / name if name else document
        assert anchor in _anchors(page.read_text()), f"{name}#{anchor}"
