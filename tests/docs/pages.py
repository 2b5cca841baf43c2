"""What pages show: their fenced blocks, and the commands in them and in their text."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: All that users and developers read. Each line of ``docs/refusals.md`` is wrong on purpose, and
#: ``tests/refusal_table`` runs them; releases of the past are as they were.
PAGES = tuple(
    path
    for pattern in ("*.md", "docs/*.md", "benchmarks/*.md", "examples/*/*.md", "tutorials/*.ipynb")
    for path in sorted(ROOT.glob(pattern))
    if path.name not in ("refusals.md", "CHANGELOG.md")
)

#: First words of what is typed into a shell.
_PROGRAMS = (
    *("tvm-ios", ".venv/bin/tvm-ios", "python", "pytest", "make", "pip"),
    *("ray", "ssh", "cibuildwheel", "twine"),
)
_FENCE = re.compile(r"^(`{3,})(\S*)\n(.*?)^\1\s*?$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(rf"`((?:{'|'.join(map(re.escape, _PROGRAMS))})\s[^`]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, as it is written, and its lines."""

    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A line for a shell."""

    #: As it is written, without its comment.
    line: str
    #: Whether it stands in a block, to be typed as it is. What stands in a sentence may leave out
    #: arguments.
    shown: bool

    @property
    def words(self) -> list[str]:
        """As a shell splits it."""
        return shlex.split(self.line, comments=True)

    @property
    def complete(self) -> bool:
        """Whether nothing stands for something else: no ``MODEL``, no ``...``."""
        return not any(word == "..." or re.match(r"^[A-Z]+\b", word) for word in self.words)


def page_id(page: Path) -> str:
    """What a test of a page is called."""
    return str(page.relative_to(ROOT))


@cache
def text_of(page: Path) -> str:
    """A page as Markdown; of a notebook its text without its code."""
    if page.suffix != ".ipynb":
        return page.read_text()
    cells = json.loads(page.read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [Block(match[2], match[3]) for match in _FENCE.finditer(text_of(page))]


def python_of(page: Path) -> str:
    """All Python of a page, as one program."""
    return "\n".join(block.text for block in blocks(page) if block.language == "python")


def commands(page: Path) -> list[Command]:
    """The command lines of a page in its order; each once, as what it is shown to be."""
    text = text_of(page)
    found = [
        (match.start(), Command(line, shown=True))
        for match in _FENCE.finditer(text)
        for line in _lines(Block(match[2], match[3]))
    ]
    prose = _FENCE.sub(lambda match: " " * len(match[0]), text)
    found += [
        (match.start(), Command(" ".join(match[1].split()).replace("\\|", "|"), shown=False))
        for match in _INLINE.finditer(prose)
    ]
    in_order = [command for _, command in sorted(found, key=lambda pair: pair[0])]
    shown = {command.line for command in in_order if command.shown}
    return list(dict.fromkeys(c for c in in_order if c.shown or c.line not in shown))


def _lines(block: Block) -> Iterator[str]:
    """The command lines of a block."""
    if block.language in ("sh", "bash"):
        for line in block.text.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield shlex.join(words)
    elif block.language == "console":
        for line in block.text.splitlines():
            if line.startswith("$ "):
                yield line.removeprefix("$ ")
