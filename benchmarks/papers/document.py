"""What all rows came to, as one JSON document, counted by agreement."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.papers.reproduce import Reproduced
from benchmarks.papers.row import Agreement, How
from runtime_ext.cpu.machine_description import describe_machine
from runtime_ext.machine.this_machine import available_lanes
from tvm_ios.files.atomic import write_atomically


def write_document(reproduced: Sequence[Reproduced], path: Path) -> None:
    """Write :func:`document`, and the machine that its measured values hold for, to a file.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    content = {"machine": describe_machine(available_lanes()), **document(reproduced)}
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())


def document(reproduced: Sequence[Reproduced]) -> dict[str, Any]:
    """The summary, and each table and figure with its rows."""
    return {
        "summary": agreements(reproduced),
        "items": [
            {
                "name": one.item.name,
                "title": one.item.title,
                "place": one.item.place,
                "same_as": one.item.same_as,
                "seconds": round(one.seconds, 1),
                "error": one.error,
                "rows": [row.to_json() for row in one.rows],
            }
            for one in reproduced
        ],
    }


def agreements(reproduced: Iterable[Reproduced]) -> dict[str, int]:
    """How many values agree how far; those that two texts share count once."""
    rows = {one.item.same_as or one.item.name: one.rows for one in reproduced}
    counts = Counter(
        row.agreement
        for of_item in rows.values()
        for row in of_item
        if row.how is not How.ILLUSTRATION
    )
    return {agreement.value: counts[agreement] for agreement in Agreement}
