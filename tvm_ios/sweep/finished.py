"""The folder of a sweep: a file for each finished task, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tvm_ios.files.atomic import make_folder, write_atomically
from tvm_ios.files.json_text import JsonError, json_object
from tvm_ios.files.locks import locked
from tvm_ios.sweep.content import Job
from tvm_ios.sweep.toml_values import SweepError

_FORMAT = {"format": "tvm-ios sweep result", "version": 1}


class FinishedTasks:
    """The finished tasks of a sweep's folder, as files ``tasks/KEY.json``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "tasks"

    def outcome(self, job: Job) -> dict[str, Any] | None:
        """Return the stored outcome of a job; None if it is not finished."""
        try:
            data = json_object(self._path(job).read_bytes())
        except (FileNotFoundError, JsonError):
            # A task with a damaged file is done again.
            return None
        return data if _FORMAT.items() <= data.items() and "result" in data else None

    def keep(self, job: Job, outcome: dict[str, Any]) -> None:
        """Write the outcome of a job to its file, unless it failed; raise OSError if that fails."""
        if "result" in outcome:
            record = {**_FORMAT, "task": job.content, **outcome}
            write_atomically(self._path(job), json.dumps(record, indent=1).encode())

    def _path(self, job: Job) -> Path:
        return self._folder / f"{job.key}.json"


@contextmanager
def results_folder(path: Path) -> Generator[FinishedTasks]:
    """Open the folder of a sweep, and lock it against other sweeps meanwhile.

    Raise SweepError if another sweep has the lock, OSError if the folder cannot be made or written.
    """
    make_folder(path)
    taken = SweepError(f"another sweep writes to {path}: wait for it, or choose another folder")
    with locked(path / ".lock", taken):
        yield FinishedTasks(path)
