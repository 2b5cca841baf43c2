"""The measurement log: append-only lines of JSON that survive a kill and several writers.

A line (see ``log_lines.py``) is written by one append under a lock, so only the last line can ever
be incomplete: readers ignore it, the next writer removes it.
"""

from __future__ import annotations

import errno
import json
import os
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tvm_ios.costs.log_lines import (
    END_OF_RUN,
    LogError,
    LogHeader,
    Record,
    check_header,
    header_line,
    measurement_line,
    parse_line,
    read_record,
)
from tvm_ios.files.atomic import make_folder
from tvm_ios.files.line_files import cut_unfinished_line
from tvm_ios.files.locks import locked

#: Measurements of a stage, one by each run that needs it, after which the log is trusted.
MEASUREMENTS = 3
#: The most measurements of a stage if other work on the machine disturbs all of them.
DISTURBED_MEASUREMENTS = 9


class MeasurementLog:
    """A log file of one device, shared by any number of processes.

    The file and its folder are made by the first append. ``header`` says what this process measures
    for. Raise LogError if the file exists and is no log, or one for another device, target or TVM.
    """

    def __init__(self, path: Path, header: LogHeader) -> None:
        self.path = path
        self.header = header
        #: For each key the samples of each measurement, in seconds; disturbed measurements are
        #: kept only while there are no others.
        self.measurements: dict[str, list[tuple[float, ...]]] = {}
        self._disturbed: set[str] = set()
        #: Keys that this run has measured, or an interrupted run before it.
        self._fresh: set[str] = set()
        self._once = False
        self._read = 0
        self._lines = 0
        self.refresh()

    def wants(self, key: str, times: int = 1) -> bool:
        """Return whether a measurement should be taken now, if ``times`` measurements are enough.

        A run continues where an interrupted one ended. After a finished run everything is measured
        again, up to three times: otherwise one measurement on a busy machine would count for ever.
        Measurements that other work disturbed are repeated until one is undisturbed, up to nine
        times.
        """
        most = DISTURBED_MEASUREMENTS if key in self._disturbed else MEASUREMENTS
        known = len(self.measurements.get(key, ()))
        fresh = key in self._fresh and (self._once or known >= times)
        return not fresh and known < most

    def reuse(self) -> None:
        """Accept all earlier measurements: this run measures only missing keys, once each."""
        self._fresh |= self.measurements.keys()
        self._once = True

    def end_run(self) -> None:
        """Note that a run has measured all it needed, so that the next one measures again."""
        if self._fresh:
            self._append(END_OF_RUN)

    def append(self, key: str, samples: Sequence[float], label: str = "") -> None:
        """Append one measurement, in seconds, and read those that other processes have added.

        :class:`MachineSamples` say which machine took the samples, :class:`DisturbedSamples` that
        it was busy with other work. ``label`` is for people. Raise LogError if there is no sample
        or one is not positive and finite, or if the file has become one for another device.
        """
        self._append(measurement_line(key, samples, label))

    def _append(self, line: dict[str, Any]) -> None:
        make_folder(self.path.parent)
        with locked(self.path) as handle:
            cut_unfinished_line(handle)
            if not os.fstat(handle).st_size:
                _write(handle, header_line(self.header))
            self.refresh()
            _write(handle, line)
            os.fdatasync(handle)
        self.refresh()

    def refresh(self) -> None:
        """Read the measurements that were added to the file since it was last read.

        Raise LogError as the constructor does.
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
                check_header(parse_line(line, where), self.header, self.path)
            elif (data := parse_line(line, where)) != END_OF_RUN:
                self._take_in(read_record(data, where))
            elif opening:
                self._fresh.clear()
            self._read += len(line)
            self._lines += 1

    def _take_in(self, record: Record) -> None:
        known = self.measurements.setdefault(record.key, [])
        if record.disturbed and not known:
            self._disturbed.add(record.key)
        if not record.disturbed and record.key in self._disturbed:
            self._disturbed.discard(record.key)
            known.clear()
        if record.disturbed == (record.key in self._disturbed):
            known.append(record.samples)
        self._fresh.add(record.key)


class ReadOnlyLog(MeasurementLog):
    """A log that is only read; asking for a measurement that it lacks is an error."""

    def wants(self, key: str, times: int = 1) -> bool:
        """Return whether the log has no measurement of a key."""
        return key not in self.measurements

    def append(self, key: str, samples: Sequence[float], label: str = "") -> None:
        """Raise LogError: the measurement that is asked for is not in the log."""
        raise LogError(
            f"the log {self.path} has no measurement of {label}: measure the model with "
            "--cost measured and this policy"
        )


def quietest(measurements: Sequence[Sequence[float]]) -> float:
    """Return the least median of several measurements, because other work only adds time."""
    return min(map(statistics.median, measurements))


def _complete_lines(data: bytes) -> Iterator[bytes]:
    for line in data.splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield line


def _write(handle: int, data: dict[str, Any]) -> None:
    line = (json.dumps(data) + "\n").encode()
    # Never in two writes: a kill between them would leave a part of a line.
    if os.write(handle, line) != len(line):
        raise OSError(errno.ENOSPC, "the disk is full", "the measurement log")
