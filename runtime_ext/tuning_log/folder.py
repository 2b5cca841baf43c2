"""The folder of a tuning log: a MetaSchedule database that survives kills and second writers.

``database_workload.json`` and ``database_tuning_record.json`` are MetaSchedule's own; TVM alone
can use them. ``tvm-ios-log.json`` has JSON lines of ours: for which target and TVM the log is,
and what was tuned and thrown away when it was made compact. All three only grow, a line at a
time; a kill can leave an unfinished last line, which readers pass over and writers remove.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir import meta_schedule

from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder, write_atomically
from tvm_ios.files.line_files import cut_unfinished_line
from tvm_ios.files.locks import locked

WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"
_ABOUT = "tvm-ios-log.json"
_FORMAT = "tvm-ios tuning log"
#: Properties that two targets must share for the schedules of one to be used for the other.
_TARGET_KEYS = ("kind", "arch", "mcpu", "num-cores")


@dataclass(frozen=True)
class OpenLog:
    """A tuning log that is locked for writing by this process.

    ``database`` writes committed records to its files at once. ``forgotten`` has for each
    workload, by name, how many trials were removed from the log; ``mended`` counts unfinished
    lines that were removed on opening.
    """

    folder: Path
    database: Any
    forgotten: Mapping[str, int]
    mended: int


def read_database(folder: Path) -> Any:
    """Load a MetaSchedule database for reading, from copies of its files.

    Raise UserError if the folder holds none, or one made with another TVM.
    """
    for name in (WORKLOADS, RECORDS):
        if not (folder / name).is_file():
            raise UserError(
                f"{folder} is no tuning log: it has no {name}; give the folder that "
                "`tvm-ios tune` or MetaSchedule wrote"
            )
    _about(folder)
    with temporary_folder() as copies:
        # Read copies: another process may be writing a line.
        paths = [shutil.copyfile(folder / name, copies / name) for name in (WORKLOADS, RECORDS)]
        for path in paths:
            _mend(path)
        return _load(folder, *paths)


@contextmanager
def open_log(folder: Path, target: Any) -> Generator[OpenLog]:
    """Open a tuning log for writing, locked until the context ends; create it if there is none.

    Raise UserError if another process writes it, or if it is for another target or TVM.
    """
    folder.mkdir(parents=True, exist_ok=True)
    about = folder / _ABOUT
    taken = UserError(
        f"another process is tuning into {folder}; wait for it or give another folder"
    )
    with locked(about, taken):
        paths = [folder / WORKLOADS, folder / RECORDS]
        for path in paths:
            path.touch()
        mended = sum(_mend(path) for path in (about, *paths))
        lines = _about(folder)
        if not lines:
            _append(
                about,
                {"format": _FORMAT, "version": 1, "tvm": tvm.__version__, "target": str(target)},
            )
        else:
            require_same_target(tvm.target.Target(json.loads(lines[0]["target"])), target)
        database = _load(folder, *paths)
        for record in database.get_all_tuning_records():
            require_same_target(record.target, target)
        forgotten = next((d["forgotten"] for d in reversed(lines) if "forgotten" in d), {})
        yield OpenLog(folder, database, forgotten, mended)


def compact(log: OpenLog) -> int:
    """Keep of each workload only the fastest trial, and the first and fastest of its default cut.

    Return the bytes saved.
    """
    path = log.folder / RECORDS
    lines = path.read_bytes().splitlines(keepends=True)
    trials_by_workload: dict[str, list[tuple[int, Recorded]]] = {}
    for number, record in enumerate(recorded(log.folder)):
        trials_by_workload.setdefault(record.workload, []).append((number, record))
    kept: set[int] = set()
    forgotten = dict(log.forgotten)
    for workload, records in trials_by_workload.items():
        first = records[0][1].trace
        defaults = [pair for pair in records if pair[1].trace == first]
        best = [min(pairs, key=lambda pair: pair[1].seconds)[0] for pairs in (defaults, records)]
        kept |= {records[0][0], *best}
        trials = {json.dumps(record.trace) for _, record in records}
        remaining = {json.dumps(record.trace) for number, record in records if number in kept}
        forgotten[workload] = forgotten.get(workload, 0) + len(trials - remaining)
    if len(kept) == len(lines):
        return 0
    # Written first: after a kill in between, trials count twice instead of being run again.
    _append(log.folder / _ABOUT, {"forgotten": forgotten})
    size = path.stat().st_size
    write_atomically(path, b"".join(line for n, line in enumerate(lines) if n in kept))
    return size - path.stat().st_size


@dataclass(frozen=True, slots=True)
class Recorded:
    """A trial in a log: its workload's name, MetaSchedule's trace as JSON, and mean seconds."""

    workload: str
    trace: Any
    seconds: float


def recorded(folder: Path) -> list[Recorded]:
    """Read the trials of a log in the order in which they were made.

    A MetaSchedule database does not keep that order.
    """
    workload = meta_schedule.database.Workload.from_json
    lines = (folder / WORKLOADS).read_bytes().splitlines()
    names = [workload_name(workload(json.loads(line)).mod) for line in lines]
    trials: list[Recorded] = []
    for line in (folder / RECORDS).read_bytes().splitlines():
        number, (trace, seconds, *_) = json.loads(line)
        trials.append(Recorded(names[number], trace, mean_seconds(seconds or ())))
    return trials


def workload_name(workload: Any) -> str:
    """Return the structural hash of a workload in hexadecimal; equal workloads share it."""
    # TVM's hash may collide for tensors of constants, but no workload has any.
    digest = tvm_ffi.structural_hash(workload, map_free_vars=True)
    return f"{digest & (1 << 64) - 1:016x}"


def mean_seconds(seconds: Sequence[float]) -> float:
    """Return the mean of run times, by which MetaSchedule ranks; infinite if there are none."""
    return sum(seconds) / len(seconds) if seconds else math.inf


def require_same_target(recorded: Any, target: Any) -> None:
    """Require that a log was tuned for ``target``, or raise UserError.

    Only the properties of targets on which kernels depend are compared.
    """
    if recorded is None:
        raise UserError("the tuning log does not say for which target it was made; tune again")
    of_log, of_target = _description(recorded), _description(target)
    if of_log != of_target:
        raise UserError(
            f"the tuning log was made for {_text(of_log)}, but kernels are made for "
            f"{_text(of_target)}; tune on this target or leave the log out"
        )


def _description(target: Any) -> dict[str, Any]:
    exported = {k: v for k, v in json.loads(json.dumps(dict(target.export()), default=str)).items()}
    described = {key: exported.get(key) for key in _TARGET_KEYS}
    return {key: value for key, value in described.items() if value is not None}


def _text(description: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in description.items())


def _load(folder: Path, workloads: Path, records: Path) -> Any:
    try:
        return meta_schedule.database.JSONDatabase(
            str(workloads), str(records), allow_missing=False
        )
    except (RuntimeError, ValueError, TypeError) as error:
        raise UserError(
            f"the tuning log {folder} cannot be read: {str(error).splitlines()[0]}"
        ) from error


def _about(folder: Path) -> list[dict[str, Any]]:
    """Read the lines of ``tvm-ios-log.json``; empty for a log that MetaSchedule alone wrote."""
    path = folder / _ABOUT
    if not path.exists():
        return []
    try:
        # An unfinished last line does not count.
        *complete, _ = path.read_bytes().split(b"\n")
        lines = [json.loads(line) for line in complete]
        if lines and (lines[0]["format"], lines[0]["version"]) != (_FORMAT, 1):
            raise ValueError(f"it has the format {lines[0]['format']} {lines[0]['version']}")
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"the tuning log {folder} cannot be read: {path.name}: {error}") from error
    if lines and lines[0].get("tvm") != tvm.__version__:
        raise UserError(
            f"the tuning log {folder} was made with TVM {lines[0].get('tvm')}, but this is TVM "
            f"{tvm.__version__}; tune again into another folder"
        )
    return lines


def _append(path: Path, data: Mapping[str, Any]) -> None:
    with path.open("ab", buffering=0) as stream:
        stream.write((json.dumps(data) + "\n").encode())
        os.fsync(stream.fileno())


def _mend(path: Path) -> bool:
    """Remove an unfinished last line of a file; return whether there was one."""
    with path.open("rb+") as stream:
        return cut_unfinished_line(stream.fileno())
