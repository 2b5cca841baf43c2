"""All rows of a sweep in one file: JSON, or Parquet."""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError
from tvm_ios.files.atomic import write_atomically
from tvm_ios.sweep.rows import COLUMNS


class TableFormat(StrEnum):
    """What the one file of all rows is."""

    json = "json"
    parquet = "parquet"


def require_format(table_format: TableFormat) -> None:
    """Find out before long work whether rows can be written.

    Raises
    ------
    UserError
        If pyarrow is not installed, which writes Parquet.
    """
    if table_format is TableFormat.parquet and importlib.util.find_spec("pyarrow") is None:
        raise UserError(
            "--format parquet needs pyarrow: pip install pyarrow, or choose --format json"
        )


def write_rows(rows: Sequence[dict[str, Any]], folder: Path, table_format: TableFormat) -> Path:
    """Write ``results.json`` or ``results.parquet``, in the place of an earlier one.

    Parameters
    ----------
    rows
        Those of :func:`tvm_ios.sweep.rows.rows_of`.
    folder
        The folder of the sweep.
    table_format
        What to write.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    path = folder / f"results.{table_format.value}"
    if table_format is TableFormat.json:
        content = {"format": "tvm-ios sweep", "version": 1, "tasks": list(rows)}
        write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
    else:
        write_atomically(path, _parquet(rows))
    return path


def _parquet(rows: Sequence[dict[str, Any]]) -> bytes:
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    stream = io.BytesIO()
    # Of columns without values the type cannot be seen, and files of sweeps are to be joined.
    schema = arrow.schema([(name, arrow.type_for_alias(kind)) for name, kind in COLUMNS.items()])
    parquet.write_table(arrow.Table.from_pylist(list(rows), schema), stream)
    return stream.getvalue()
