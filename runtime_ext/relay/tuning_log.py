"""AutoTVM's logs: read with care, applied while kernels are built."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import autotvm

from tvm_ios.errors import UserError
from tvm_ios.json_text import JsonError, json_object

#: The only format that AutoTVM has written since TVM 0.7; the one before held pickles.
_FORMAT = 0.2


class TuningLogError(UserError):
    """A log that cannot be used, with one sentence that says why."""


@dataclass(frozen=True)
class AutotvmLog:
    """The records of a log, all of one target.

    Attributes
    ----------
    target
        What the kernels are built for.
    records
        What AutoTVM's ``ApplyHistoryBest`` reads.
    digest
        Of the file: kernels depend on it.
    """

    target: tvm.target.Target
    records: Sequence[tuple[Any, Any]]
    digest: str

    def applied(self) -> AbstractContextManager[Any]:
        """While this is entered ``relay.build`` takes the best records of the log."""
        return _History(list(self.records))

    def coverage(self, module: tvm.IRModule) -> tuple[int, int]:
        """How many of the different tunable operators of ``main`` the log knows, and of how many.

        AutoTVM builds the others with default schedules and says nothing.
        """
        tasks = autotvm.task.extract_from_program(module["main"], target=self.target, params={})
        known = {(i.task.name, i.task.args) for i, result in self.records if not result.error_no}
        wanted = {(task.name, _whole_channels((task.name, *task.args))[1:]) for task in tasks}
        return len(wanted & known), len(wanted)


class _History(autotvm.task.ApplyHistoryBest):
    """Knows convolutions in altered layouts by their records, which have the model's layout.

    TVM itself knows them only in the context in which it altered them.
    """

    def _query_inside(self, target: tvm.target.Target, workload: tuple[Any, ...]) -> Any:
        found = super()._query_inside(target, workload)
        if found is not None:
            return found
        return super()._query_inside(target, _whole_channels(workload))


def _whole_channels(workload: tuple[Any, ...]) -> tuple[Any, ...]:
    """A convolution on blocks of channels as the one on NCHW that it was; others as they are."""
    if not str(workload[0]).endswith("conv2d_NCHWc.x86") or len(workload[1][1]) != 5:
        return workload
    name, (tensor, data, dtype), (_, kernel, kernel_dtype), *rest = workload
    n, chunks, height, width, block = data
    out_chunks, in_chunks, *window, in_block, out_block = kernel
    whole = (out_chunks * out_block, in_chunks * in_block, *window)
    strides, pads, dilations, _, _, result = rest
    return (
        name,
        (tensor, (n, chunks * block, height, width), dtype),
        (tensor, whole, kernel_dtype),
        *(strides, pads, dilations, "NCHW", "NCHW", result),
    )


def read_autotvm_log(path: Path, target: Any) -> AutotvmLog:
    """Read a log of format 0.2.

    Parameters
    ----------
    path
        The file: one record a line.
    target
        Of the kernels that are to be built. AutoTVM itself would use the records of any CPU.

    Raises
    ------
    TuningLogError
        If it is no such log, or one of another target.
    """
    target = tvm.target.Target(target)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TuningLogError(f"the tuning log {path} cannot be read: {error.strerror}") from error
    records: list[tuple[Any, Any]] = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        where = f"line {number} of the tuning log {path}"
        row = _row(line, where)
        records.append(_record(line.decode(), row["input"][0], target, where))
    if not records:
        raise TuningLogError(f"the tuning log {path} holds no record: tune first")
    return AutotvmLog(target, tuple(records), hashlib.sha256(content).hexdigest())


def _row(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json_object(line)
    except JsonError as error:
        raise TuningLogError(f"{where} is no AutoTVM record: {error}") from error
    if row.get("version") != _FORMAT:
        raise TuningLogError(
            f"{where} has the format {row.get('version')!r}, and only {_FORMAT} is read: "
            "tune again with TVM 0.7 to 0.19"
        )
    given = row.get("input")
    if not isinstance(given, list) or not given or not isinstance(given[0], str):
        raise TuningLogError(f"{where} names no target: it is no AutoTVM record")
    return row


def _record(line: str, named: str, target: tvm.target.Target, where: str) -> tuple[Any, Any]:
    try:
        theirs = tvm.target.Target(named)
        record = autotvm.record.decode(line)
    except Exception as error:
        reason = str(error).strip().rpartition("\n")[2]
        raise TuningLogError(f"{where} is not what AutoTVM writes: {reason}") from error
    if _machine(theirs) != _machine(target):
        raise TuningLogError(
            f"{where} is for the target {named!r} and not for {str(target)!r}: tune for that, "
            "or build for the log's target"
        )
    if record is None:
        raise TuningLogError(f"{where} is of a template that TVM {tvm.__version__} does not have")
    return record


def _machine(target: tvm.target.Target) -> tuple[Any, ...]:
    """What code for one target and not for the other depends on."""
    attributes = target.attrs
    return (
        target.kind.name,
        *(str(attributes[key]) if key in attributes else "" for key in ("mcpu", "mtriple", "arch")),
        sorted(map(str, attributes["mattr"])) if "mattr" in attributes else [],
    )
