"""Makes ``docs/papers.md`` of what ``benchmarks.papers`` found; ``--check`` only compares."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.papers.catalogue import TEXTS, read_text
from benchmarks.papers.row import Agreement, How, shown

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "papers.md"
TEXT = ROOT / "docs" / "make" / "papers_text.md"
#: From ``python -m benchmarks.papers -o benchmarks/results/papers.json``.
RESULT = ROOT / "benchmarks" / "results" / "papers.json"

#: Columns of a line, which a command may exceed.
_WIDTH = 116
#: What may not begin a line: there it would begin a list, a heading, a quotation or a table.
_MARKER = re.compile(r" (?=(?:[-+*]|\d+[.)])(?: |$)|[#>|])")
#: A space that is no place to begin a line.
_GLUE = "\0"

#: Rows whose difference asks for a reason.
_DIFFERING = (Agreement.DIRECTION, Agreement.NO)

Item = Mapping[str, Any]
Row = Mapping[str, Any]


def page() -> str:
    """The page, made of the files above."""
    result = json.loads(RESULT.read_text())
    items = result["items"]
    head, why, tables, rest = TEXT.read_text().split("<!-- table -->\n")
    machine = result["machine"]
    measured = f"\nMeasured values are of {machine['processor']}, {machine['date']}.\n"
    return "".join(
        (head, _summary(items), measured, why, _differences(items), tables, *_texts(items), rest)
    )


def _summary(items: Sequence[Item]) -> str:
    """How many rows of each text agree how far."""
    lines = [
        f"| text | tables and figures | rows | {' | '.join(Agreement)} |",
        f"|---|---|---|{'---|' * len(Agreement)}",
    ]
    total: Counter[str] = Counter()
    for text in TEXTS:
        of_text = [item for item in items if item["name"].startswith(f"{text}/")]
        rows = [row for item in of_text if not item["same_as"] for row in _compared(item)]
        counts = Counter(row["agreement"] for row in rows)
        total += counts
        lines.append(_line(f"[{text}](#{text})", len(of_text), len(rows), counts))
    lines.append(_line("all", len(items), total.total(), total))
    equal = sum(row["published"] == row["ours"] for row in _unique_rows(items))
    lines += ["", f"In {equal} rows both are equal, digit by digit."]
    return "\n".join(lines) + "\n"


def _line(name: str, items: int, rows: int, counts: Mapping[str, int]) -> str:
    cells = (name, items, rows, *(counts[agreement] for agreement in Agreement))
    return f"| {' | '.join(map(str, cells))} |"


def _compared(item: Item) -> list[Row]:
    """The rows of an item that are more than an illustration."""
    return [row for row in item["rows"] if row["how"] != How.ILLUSTRATION]


def _unique_rows(items: Iterable[Item]) -> Iterator[Row]:
    for item in items:
        if not item["same_as"]:
            yield from _compared(item)


def _differences(items: Sequence[Item]) -> str:
    """Each reason once, with the rows that it explains."""
    reasons: dict[tuple[str, str], list[Row]] = {}
    for item in items:
        if not item["same_as"]:
            for row in _compared(item):
                if row["agreement"] in _DIFFERING:
                    reasons.setdefault((item["name"], row["note"]), []).append(row)
    lines: list[str] = []
    named = ""
    for (name, note), rows in reasons.items():
        if name != named:
            lines += ["", f"**[{name}](#{_anchor(name)})**", ""]
            named = name
        values = "; ".join(
            f"{row['label']} ({shown(row['ours'])}, published {shown(row['published'])})"
            for row in rows
        )
        lines.append(_wrapped(f"{_sentence(note)} *{values}.*", "- "))
    return "\n".join(lines).strip("\n") + "\n"


def _texts(items: Sequence[Item]) -> Iterator[str]:
    for name in TEXTS:
        text = read_text(name)
        yield f"\n## {name}\n\n*{text.title}*. {text.source}.\n"
        for item in items:
            if item["name"].startswith(f"{name}/"):
                yield _item(item)


def _item(item: Item) -> str:
    """A table or figure: its rows, and their notes below, each once."""
    shows = f"{item['title']} ({item['place']})."
    lines = [f"\n### {_heading(item['name'])}\n"]
    if item["same_as"]:
        other = f"[{item['same_as']}](#{_anchor(item['same_as'])})"
        return "\n".join([*lines, _wrapped(f"{shows} The same as {other}."), ""])
    rows = _compared(item)
    if not rows:
        notes = " ".join(_sentence(row["note"]) for row in item["rows"])
        return "\n".join([*lines, _wrapped(f"{shows} An illustration: {notes}"), ""])
    made = f"python -m benchmarks.papers {item['name']}"
    commands = dict.fromkeys((made, *(row["command"] for row in rows if row["command"])))
    lines += [_wrapped(f"{shows} {', '.join(f'`{command}`' for command in commands)}."), ""]
    notes = list(dict.fromkeys(row["note"] for row in rows if row["note"]))
    lines += ["| | published | ours | unit | agreement | how |", "|---|---|---|---|---|---|"]
    for row in rows:
        how = f"{row['how']} on {row['device']}" if row["device"] else row["how"]
        if row["note"]:
            how += f" ({notes.index(row['note']) + 1})"
        cells = (row["label"], shown(row["published"]), shown(row["ours"]), row["unit"])
        lines.append(f"| {' | '.join((*cells, row['agreement'], how))} |")
    numbered = (_wrapped(_sentence(note), f"{n}. ") for n, note in enumerate(notes, start=1))
    return "\n".join([*lines, "", *numbered, ""])


def _wrapped(text: str, bullet: str = "") -> str:
    """A paragraph, or an entry of a list, in lines: code stays whole, and no line begins a list."""
    whole = re.sub("`[^`]*`", lambda code: code[0].replace(" ", _GLUE), text)
    lines = textwrap.fill(
        _MARKER.sub(_GLUE, whole),
        _WIDTH,
        initial_indent=bullet,
        subsequent_indent=" " * len(bullet),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines.replace(_GLUE, " ")


def _heading(name: str) -> str:
    text, _, number = name.partition("/")
    return f"{number.replace('-', ' ').capitalize()} of {text}"


def _anchor(name: str) -> str:
    """What GitHub and MyST make of a heading."""
    return _heading(name).lower().replace(" ", "-").replace(".", "")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def main() -> None:
    """Write the page, or compare it."""
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page():
            sys.exit("docs/papers.md is not what the result file says: make it anew")
        return
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
