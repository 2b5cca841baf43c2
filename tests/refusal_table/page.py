"""The page of the documentation that shows the table of refusals."""

from __future__ import annotations

from tests.refusal_table.running import ROOT

PAGE = ROOT / "docs" / "refusals.md"
_HEAD = """\
# What is refused, and how

Made by `python -m tests.refusal_table`, which runs every line. Each failure is one
sentence on stderr, nothing on stdout (also with `--json`), and exit code 1; 2 is for a
wrong command line, 130 and 143 for Ctrl-C and SIGTERM. `--debug` shows the traceback.
Lines of Python raise a `tvm_ios.errors.UserError`. `…` stands for words of a library.

An executable is code, like any program: its checksums find damage, not malice. Run only
those whose origin you trust. No pickle is ever loaded.
"""


def page_of(lines: dict[str, list[str]]) -> str:
    """The page of these lines by section."""
    tables = (
        f"\n## {section}\n\n| | command | sentence | exit |\n|-|-|-|-|\n" + "\n".join(rows) + "\n"
        for section, rows in lines.items()
    )
    return _HEAD + "".join(tables)
