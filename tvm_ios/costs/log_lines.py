"""The lines of a measurement log: its header, and one measurement each.

The first line says for what device, target and TVM version the log is; every other line is one
measurement with its raw samples, or says that a run came to its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError
from tvm_ios.files.json_text import JsonError, json_object

_FORMAT = "tvm-ios log"
_VERSION = 1
#: The line of a run that measured what it needed.
END_OF_RUN = {"run": "ended"}


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


class DisturbedSamples(list[float]):
    """Seconds, taken while other work on the machine kept threads from running."""


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
    disturbed
        Whether other work kept threads from running.
    """

    key: str
    samples: tuple[float, ...]
    label: str = ""
    machine: str = ""
    disturbed: bool = False


def header_line(header: LogHeader) -> dict[str, Any]:
    """The first line of a log."""
    return {"format": _FORMAT, "version": _VERSION, **asdict(header)}


def measurement_line(key: str, samples: Sequence[float], label: str) -> dict[str, Any]:
    """The line of one measurement.

    Raises
    ------
    LogError
        If there is no sample or one is not a positive finite number.
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
    return _header(parse_line(line, f"line 1 of the log {path}"), path)


def _header(data: dict[str, Any], path: Path) -> LogHeader:
    if data.get("format") != _FORMAT:
        raise LogError(f"{path} is not a measurement log")
    if data.get("version") != _VERSION:
        raise LogError(f"the log {path} has version {data.get('version')}, not {_VERSION}")
    return LogHeader(*(str(data.get(key, "")) for key in ("device", "target", "tvm")))


def check_header(data: dict[str, Any], ours: LogHeader, path: Path) -> None:
    """Refuse the header of a log that was made for something else."""
    theirs = _header(data, path)
    for key, our_value in asdict(ours).items():
        their_value = getattr(theirs, key)
        if their_value != our_value:
            raise LogError(
                f"the log {path} was made for {key} {their_value!r}, but this is {key} "
                f"{our_value!r}: give another log file"
            )


def read_record(data: dict[str, Any], where: str) -> Record:
    """The measurement of a line; ``where`` is the line, for people."""
    try:
        samples = tuple(float(s) for s in data["samples"])
        if samples and all(0 < s < float("inf") for s in samples):
            return Record(
                str(data["key"]),
                samples,
                str(data.get("label", "")),
                str(data.get("machine", "")),
                bool(data.get("disturbed")),
            )
    except (KeyError, TypeError, ValueError):
        pass
    raise LogError(f"{where} is no measurement, remove it: {str(data)[:60]}")


def parse_line(line: bytes, where: str) -> dict[str, Any]:
    """The data of a line; ``where`` is the line, for people."""
    try:
        return json_object(line)
    except JsonError as error:
        text = line[:60].decode(errors="replace").rstrip()
        raise LogError(f"{where} is damaged, remove it: {text!r}") from error
