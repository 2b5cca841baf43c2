"""The lines of a measurement log: its header, and its measurements.

The first line names the device, target and TVM version of the log; every other line is one
measurement with its raw samples, or says that a run has finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError
from tvm_ios.files.json_text import JsonError, json_object
from tvm_ios.files.plain_data import read_as

_FORMAT = "tvm-ios log"
_VERSION = 1
#: The line that ends a run that has measured all it needed.
END_OF_RUN = {"run": "ended"}


class LogError(UserError):
    """Raised for a log that cannot be used, with the reason in one sentence."""


@dataclass(frozen=True, slots=True)
class LogHeader:
    """The device, the compiler's target and the TVM version that a log's measurements hold for.

    ``device`` is, for example, a processor's name and the lanes.
    """

    device: str
    target: str
    tvm: str


class DisturbedSamples(list[float]):
    """Samples, in seconds, taken while other work on the machine kept threads from running."""


class MachineSamples(list[float]):
    """Samples, in seconds, with the name of the machine that took them, of several in a device."""

    def __init__(self, seconds: Iterable[float], machine: str) -> None:
        super().__init__(seconds)
        self.machine = machine


@dataclass(frozen=True, slots=True)
class Record:
    """One measurement."""

    #: The key of the stage or unit that was measured.
    key: str
    #: Seconds, in the order of the runs.
    samples: tuple[float, ...]
    #: A description for people.
    label: str = ""
    #: The name of the machine that took it, if a device is several machines.
    machine: str = ""
    #: Whether other work kept threads from running.
    disturbed: bool = False


def header_line(header: LogHeader) -> dict[str, Any]:
    """Return the first line of a log."""
    return {"format": _FORMAT, "version": _VERSION, **asdict(header)}


def measurement_line(key: str, samples: Sequence[float], label: str) -> dict[str, Any]:
    """Return the line of one measurement.

    Raise LogError if there is no sample or one is not a positive finite number.
    """
    if not samples or not all(0 < s < float("inf") for s in samples):
        raise LogError(f"the samples of {label or key!r} are not all positive seconds")
    line: dict[str, Any] = {"key": key, "samples": list(samples), "label": label}
    if isinstance(samples, MachineSamples):
        line["machine"] = samples.machine
    if isinstance(samples, DisturbedSamples):
        line["disturbed"] = True
    return line


def read_header(path: Path) -> LogHeader:
    """Return the header of a log file. Raise LogError if it cannot be read or is no log."""
    try:
        with path.open("rb") as stream:
            line = stream.readline()
    except OSError as error:
        raise LogError(f"cannot read the log {path}: {error}") from error
    return _header(parse_line(line, f"line 1 of the log {path}"), path)


def _header(data: dict[str, Any], path: Path) -> LogHeader:
    if data.get("format") != _FORMAT:
        raise LogError(f"{path} is not a measurement log")
    if data.get("version") != _VERSION:
        raise LogError(f"the log {path} has version {data.get('version')}, not {_VERSION}")
    return LogHeader(*(str(data.get(key, "")) for key in ("device", "target", "tvm")))


def check_header(data: dict[str, Any], ours: LogHeader, path: Path) -> None:
    """Raise LogError if the header of a log differs from ours."""
    theirs = _header(data, path)
    for key, our_value in asdict(ours).items():
        their_value = getattr(theirs, key)
        if their_value != our_value:
            raise LogError(
                f"the log {path} was made for {key} {their_value!r}, but this is {key} "
                f"{our_value!r}: give another log file"
            )


def read_record(data: dict[str, Any], where: str) -> Record:
    """Return the measurement of a line; ``where`` describes the line in errors."""
    try:
        record = read_as(Record, data)
        if record.samples and all(0 < s < float("inf") for s in record.samples):
            return record
    except JsonError:
        pass
    raise LogError(f"{where} is no measurement, remove it: {str(data)[:60]}")


def parse_line(line: bytes, where: str) -> dict[str, Any]:
    """Return the JSON object of a line; ``where`` describes the line in errors."""
    try:
        return json_object(line)
    except JsonError as error:
        text = line[:60].decode(errors="replace").rstrip()
        raise LogError(f"{where} is damaged, remove it: {text!r}") from error
