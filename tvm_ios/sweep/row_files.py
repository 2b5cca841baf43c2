"""Writing all rows of a sweep to one file: JSON, or Parquet."""

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
    """File formats for the rows of a sweep."""

    json = "json"
    parquet = "parquet"


def require_format(table_format: TableFormat) -> None:
    """Require that a format can be written (Parquet needs pyarrow), or raise UserError."""
    if table_format is TableFormat.parquet and importlib.util.find_spec("pyarrow") is None:
        raise UserError(
            "--format parquet needs pyarrow: pip install pyarrow, or choose --format json"
        )


def write_rows(rows: Sequence[dict[str, Any]], folder: Path, table_format: TableFormat) -> Path:
    """Write ``results.json`` or ``results.parquet`` to a sweep's folder; return its path.

    ``rows`` are those of :func:`tvm_ios.sweep.rows.rows_of`. An earlier file is replaced.
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
    # Explicit types, also of empty columns, so that files of several sweeps can be joined.
    schema = arrow.schema([(name, arrow.type_for_alias(kind)) for name, kind in COLUMNS.items()])
    parquet.write_table(arrow.Table.from_pylist(list(rows), schema), stream)
    return stream.getvalue()
