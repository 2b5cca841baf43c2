"""An AutoTVM log open for writing: locked, only added to, and repaired after a kill."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm import autotvm

from runtime_ext.relay.tuning_log import TuningLogError, read_autotvm_log
from tvm_ios.files.locks import locked

#: A trial: AutoTVM's ``MeasureInput`` and ``MeasureResult``.
AutotvmRecord = tuple[Any, Any]


@dataclass(frozen=True)
class OpenAutotvmLog:
    """A log that this process alone may write.

    ``records`` are those that it held when it was opened; ``mended`` counts unfinished lines that
    were removed.
    """

    path: Path
    records: Sequence[AutotvmRecord]
    mended: int
    _handle: int

    def append(self, records: Sequence[AutotvmRecord]) -> None:
        """Write records in AutoTVM's format and flush them to disk."""
        lines = "".join(autotvm.record.encode(*record) + "\n" for record in records)
        os.write(self._handle, lines.encode())
        os.fsync(self._handle)


@contextmanager
def open_autotvm_log(path: Path, target: Any) -> Generator[OpenAutotvmLog]:
    """Open a log for writing, created if missing, and lock it until the context ends.

    Raise TuningLogError if another process writes it or it is no log of this target, and OSError if
    it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    taken = TuningLogError(
        f"another process is tuning into {path}; wait for it or give another file"
    )
    with locked(path, taken) as handle:
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        # Only an unfinished record is removed: any other file is refused below.
        mended = int(whole < len(content) and _begins_a_record(content[whole:]))
        if mended:
            os.truncate(path, whole)
        empty = not path.read_bytes().strip()
        records = () if empty else read_autotvm_log(path, target).records
        if not empty and whole < len(content) and not mended:
            os.write(handle, b"\n")
        yield OpenAutotvmLog(path, records, mended, handle)


def _begins_a_record(line: bytes) -> bool:
    """Return whether a line is an unfinished record."""
    return b'{"input": ['.startswith(line[:11]) and not line.rstrip().endswith(b"}")
