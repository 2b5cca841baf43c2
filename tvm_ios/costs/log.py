"""The measurement log: append-only JSON lines that survive a kill and a second writer.

The first line says for what device, target and TVM version the log is; every other line is
one measurement with its raw samples, or says that a run came to its end. A line is written by one
append under a lock, so only the last line can ever be incomplete: readers ignore it, the next
writer removes it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import statistics
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError
from tvm_ios.files.atomic import make_folder
from tvm_ios.files.json_text import JsonError, json_object
from tvm_ios.files.line_files import cut_unfinished_line

#: So often is a stage measured, once by each run that needs it, before a log is believed.
MEASUREMENTS = 3
_FORMAT = "tvm-ios log"
_VERSION = 1
_END_OF_RUN = {"run": "ended"}


class LogError(UserError):
    """A log that cannot be used, with one sentence that says why."""


@dataclass(frozen=True, slots=True)
class LogHeader:
    """What a log's measurements hold for.

    Attributes
    ----------
    device
        The machine, e.g. a processor's name and the lanes.
    target
        The compiler's target.
    tvm
        The version of TVM.
    """

    device: str
    target: str
    tvm: str


class MachineSamples(list[float]):
    """Seconds, and which machine took them where a device is several.

    Parameters
    ----------
    seconds
        The samples.
    machine
        Its name, which log lines have.
    """

    def __init__(self, seconds: Iterable[float], machine: str) -> None:
        super().__init__(seconds)
        self.machine = machine


@dataclass(frozen=True, slots=True)
class Record:
    """One measurement.

    Attributes
    ----------
    key
        The stage key (or unit key) that it is of.
    samples
        Seconds, as they came.
    label
        What it is, for people.
    machine
        Which machine took it where a device is several.
    """

    key: str
    samples: tuple[float, ...]
    label: str = ""
    machine: str = ""


class MeasurementLog:
    """A log file of one device, shared by any number of processes.

    Parameters
    ----------
    path
        Made, with its folder, by the first append.
    header
        What this process measures for.

    Raises
    ------
    LogError
        If the file exists and is no log, or one for another device, target or TVM.
    """

    def __init__(self, path: Path, header: LogHeader) -> None:
        self.path = path
        self.header = header
        #: For each key the samples of each measurement, in seconds.
        self.measurements: dict[str, list[tuple[float, ...]]] = {}
        #: What this run need not measure: it did, or one that was cut short did before.
        self._fresh: set[str] = set()
        self._read = 0
        self._lines = 0
        self.refresh()

    def wants(self, key: str) -> bool:
        """Whether a measurement should be taken now.

        A run goes on where one was that was cut short. After one that came to its end everything
        is measured again, up to three times: one time that a machine was busy would otherwise
        count for ever.
        """
        return key not in self._fresh and len(self.measurements.get(key, ())) < MEASUREMENTS

    def reuse(self) -> None:
        """Let what was ever measured do: only what was not is measured in this run."""
        self._fresh |= self.measurements.keys()

    def end_run(self) -> None:
        """Say that a run has measured what it needed: the next one measures again.

        Raises
        ------
        LogError, OSError
            As for :meth:`append`.
        """
        if self._fresh:
            self._append(_END_OF_RUN)

    def append(self, key: str, samples: Sequence[float], label: str = "") -> None:
        """Add one measurement, and take in those that others have added.

        Parameters
        ----------
        key
            The key of the stage or unit.
        samples
            Seconds, at least one; :class:`MachineSamples` say which machine took them.
        label
            For people.

        Raises
        ------
        LogError
            If there is no sample or one is not a positive finite number, or the file has
            become one for another device.
        OSError
            If it cannot be written.
        """
        if not samples or not all(0 < s < float("inf") for s in samples):
            raise LogError(f"the samples of {label or key!r} are not all positive seconds")
        machine = {"machine": samples.machine} if isinstance(samples, MachineSamples) else {}
        self._append({"key": key, "samples": list(samples), "label": label, **machine})

    def _append(self, line: dict[str, Any]) -> None:
        make_folder(self.path.parent)
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        with os.fdopen(handle, "rb+", buffering=0) as stream, _locked(stream.fileno()):
            cut_unfinished_line(stream.fileno())
            if not os.fstat(stream.fileno()).st_size:
                _write(
                    stream.fileno(), {"format": _FORMAT, "version": _VERSION, **asdict(self.header)}
                )
            self.refresh()
            _write(stream.fileno(), line)
            os.fdatasync(stream.fileno())
        self.refresh()

    def refresh(self) -> None:
        """Take in the measurements that were added since the last look.

        Raises
        ------
        LogError
            As for the constructor.
        """
        if not self.path.exists():
            return
        opening = self._read == 0
        with self.path.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size < self._read:
                raise LogError(f"the log {self.path} was cut short while in use: start again")
            stream.seek(self._read)
            new = stream.read()
        for line in _complete_lines(new):
            where = f"line {self._lines + 1} of the log {self.path}"
            if self._read == 0:
                _check_header(_parse(line, where), self.header, self.path)
            elif (data := _parse(line, where)) != _END_OF_RUN:
                record = _record(data, where)
                self.measurements.setdefault(record.key, []).append(record.samples)
                self._fresh.add(record.key)
            elif opening:
                self._fresh.clear()
            self._read += len(line)
            self._lines += 1


class ReadOnlyLog(MeasurementLog):
    """A log that says what it holds; asking for more is an error."""

    def wants(self, key: str) -> bool:
        """Whether the log lacks it altogether."""
        return key not in self.measurements

    def append(self, key: str, samples: Sequence[float], label: str = "") -> None:
        """Refuse a measurement: what was asked for is not in the log.

        Raises
        ------
        LogError
            Always.
        """
        raise LogError(
            f"the log {self.path} has no measurement of {label}: measure the model with "
            "--cost measured and this policy"
        )


def quietest(measurements: Sequence[Sequence[float]]) -> float:
    """Seconds by several measurements: the least median, because other work only adds time."""
    return min(map(statistics.median, measurements))


def read_header(path: Path) -> LogHeader:
    """The header of a log.

    Raises
    ------
    LogError
        If the file cannot be read or is no log.
    """
    try:
        with path.open("rb") as stream:
            line = stream.readline()
    except OSError as error:
        raise LogError(f"cannot read the log {path}: {error}") from error
    return _header(_parse(line, f"line 1 of the log {path}"), path)


def _header(data: dict[str, Any], path: Path) -> LogHeader:
    if data.get("format") != _FORMAT:
        raise LogError(f"{path} is not a measurement log")
    if data.get("version") != _VERSION:
        raise LogError(f"the log {path} has version {data.get('version')}, not {_VERSION}")
    return LogHeader(*(str(data.get(key, "")) for key in ("device", "target", "tvm")))


def _check_header(data: dict[str, Any], ours: LogHeader, path: Path) -> None:
    theirs = _header(data, path)
    for key, our_value in asdict(ours).items():
        their_value = getattr(theirs, key)
        if their_value != our_value:
            raise LogError(
                f"the log {path} was made for {key} {their_value!r}, but this is {key} "
                f"{our_value!r}: give another log file"
            )


def _record(data: dict[str, Any], where: str) -> Record:
    try:
        samples = tuple(float(s) for s in data["samples"])
        if samples and all(0 < s < float("inf") for s in samples):
            return Record(
                str(data["key"]), samples, str(data.get("label", "")), str(data.get("machine", ""))
            )
    except (KeyError, TypeError, ValueError):
        pass
    raise LogError(f"{where} is no measurement, remove it: {str(data)[:60]}")


def _parse(line: bytes, where: str) -> dict[str, Any]:
    try:
        return json_object(line)
    except JsonError as error:
        text = line[:60].decode(errors="replace").rstrip()
        raise LogError(f"{where} is damaged, remove it: {text!r}") from error


def _complete_lines(data: bytes) -> Iterator[bytes]:
    for line in data.splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield line


def _write(handle: int, data: dict[str, Any]) -> None:
    line = (json.dumps(data) + "\n").encode()
    # Never in two writes: a kill between them would leave what looks like another's line.
    if os.write(handle, line) != len(line):
        raise OSError(errno.ENOSPC, "the disk is full", "the measurement log")


@contextmanager
def _locked(handle: int) -> Generator[None]:
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)
