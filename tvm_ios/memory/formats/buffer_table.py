"""Tables of buffers (CSV) in MiniMalloc's format, and the same rows with the column ``offset``.

The columns are ``id``, ``lower``, ``upper`` and ``size``, whole numbers but for the first; a buffer
that ends at a step may share bytes with one that begins at it. Besides, ``bank`` names the bank in
which a buffer has to lie, and ``traffic`` has the bytes that are read and written. Others are kept.
Of several banks, the column ``lies_in`` names the one that was chosen.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_ios.files.atomic import write_atomically
from tvm_ios.memory.planning import Buffer, BufferError, Plan

_COLUMNS = ("id", "lower", "upper", "size")


@dataclass(frozen=True)
class BufferTable:
    """The rows of a table, with the buffers that they describe.

    Attributes
    ----------
    columns
        The names of the columns.
    rows
        The cells of each row, as they were read.
    buffers
        The buffer of each row.
    """

    columns: tuple[str, ...]
    rows: tuple[dict[str, str], ...]
    buffers: tuple[Buffer, ...]

    @staticmethod
    def of(buffers: Sequence[Buffer]) -> BufferTable:
        """Return a table of buffers that were in none."""
        rows: list[dict[str, str]] = []
        for buffer in buffers:
            cells = (buffer.name, buffer.lower, buffer.upper, buffer.size)
            rows.append(dict(zip(_COLUMNS, map(str, cells), strict=True)))
        return BufferTable(_COLUMNS, tuple(rows), tuple(buffers))

    @staticmethod
    def read(path: Path) -> BufferTable:
        """Read a file; raise BufferError, which names the line, if it is no table of buffers."""
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise BufferError(f"{path} is not a table of buffers: it is not text") from error
        reader = csv.DictReader(io.StringIO(text))
        columns = tuple(reader.fieldnames or ())
        if missing := [name for name in _COLUMNS if name not in columns]:
            raise BufferError(
                f"{path} is not a table of buffers: its first line names no column "
                f"{missing[0]!r}, and there have to be {', '.join(_COLUMNS)}"
            )
        rows: list[dict[str, str]] = []
        buffers: list[Buffer] = []
        for row in reader:
            try:
                buffers.append(_buffer(row))
            except (TypeError, ValueError) as error:
                raise BufferError(
                    f"line {reader.line_num} of {path} is no row of a buffer: {error}"
                ) from error
            rows.append(row)
        return BufferTable(columns, tuple(rows), tuple(buffers))

    def write(self, path: Path, plan: Plan) -> None:
        """Write the rows with the offsets of a plan, and its banks if it has several."""
        placed = {"offset": [str(offset) for offset in plan.offsets]}
        if len(plan.banks) > 1:
            placed["lies_in"] = [plan.banks[number].bank.name for number in plan.bank_of]
        columns = [*(name for name in self.columns if name not in placed), *placed]
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        for row, *cells in zip(self.rows, *placed.values(), strict=True):
            writer.writerow({**row, **dict(zip(placed, cells, strict=True))})
        write_atomically(path, text.getvalue().encode())


def _buffer(row: dict[Any, Any]) -> Buffer:
    # What is beyond the columns, and what is missing.
    if None in row or None in row.values():
        raise ValueError("it has more or fewer cells than the first line")
    lower, upper, size = (int(row[name]) for name in _COLUMNS[1:])
    traffic = row.get("traffic")
    return Buffer(
        row["id"], lower, upper, size, row.get("bank") or None, int(traffic) if traffic else None
    )
