"""Read AutoTVM's logs with checks, and apply them while kernels are built."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import autotvm

from tvm_ios.errors import UserError
from tvm_ios.files.json_text import JsonError, json_object

#: The only format that AutoTVM has written since TVM 0.7; the one before held pickles.
_FORMAT = 0.2

#: AutoTVM's key of an operator with certain shapes: the template and its arguments.
AutotvmWorkload = tuple[Any, ...]
#: The knobs of TVM's templates for x86 that determine the channel blocks.
BLOCK_KNOBS = frozenset({"tile_ic", "tile_oc"})
#: Channels in a block of a convolution's input, and of its result.
Blocks = tuple[int, int]
#: TVM's Winograd template for GPUs.
_WINOGRAD = "conv2d_nchw_winograd"


class TuningLogError(UserError):
    """A log cannot be used; the message is one sentence with the reason."""


@dataclass(frozen=True)
class AutotvmKernel:
    """A measured kernel of an operator: AutoTVM's configuration, and seconds of a run."""

    config: Any
    seconds: float


@dataclass(frozen=True)
class AutotvmLog:
    """The records of a log, all of one target.

    ``digest`` is the SHA-256 of the file, and part of the cache keys of kernels.
    """

    target: tvm.target.Target
    records: Sequence[tuple[Any, Any]]
    digest: str

    def applied(self) -> AbstractContextManager[Any]:
        """Return a context in which ``relay.build`` uses the best records of the log."""
        return _History(self)

    def best(self, workload: AutotvmWorkload) -> Mapping[Blocks, AutotvmKernel]:
        """Return the fastest kernel of an NCHW convolution for each blocking of its channels."""
        return self._best.get(workload, {})

    @cached_property
    def _best(self) -> Mapping[AutotvmWorkload, Mapping[Blocks, AutotvmKernel]]:
        kernels: dict[AutotvmWorkload, dict[Blocks, AutotvmKernel]] = {}
        for measure_input, result in self.records:
            workload = (measure_input.task.name, *measure_input.task.args)
            knobs = {
                name: value for name, _, value in measure_input.config.to_json_dict()["entity"]
            }
            if result.error_no or not _is_blocked(workload) or not knobs.keys() >= BLOCK_KNOBS:
                continue
            blocks = (int(knobs["tile_ic"][-1]), int(knobs["tile_oc"][-1]))
            kernel = AutotvmKernel(measure_input.config, float(np.mean(result.costs)))
            best = kernels.setdefault(workload, {}).setdefault(blocks, kernel)
            if kernel.seconds < best.seconds:
                kernels[workload][blocks] = kernel
        return kernels

    def coverage(self, module: tvm.IRModule) -> tuple[int, int]:
        """Return how many different tunable operators of ``main`` the log knows, and their total.

        AutoTVM silently builds the others with default schedules.
        """
        tasks = autotvm.task.extract_from_program(module["main"], target=self.target, params={})
        known = {(i.task.name, *i.task.args) for i, result in self.records if not result.error_no}
        workloads = {on_nchw((task.name, *task.args))[0] for task in tasks}
        return len(workloads & known), len(workloads)


class _History(autotvm.task.ApplyHistoryBest):
    """A dispatch context that finds records of convolutions in altered layouts.

    Records have the model's layouts. TVM itself finds them only in the context in which it altered
    the convolutions.
    """

    def __init__(self, log: AutotvmLog) -> None:
        super().__init__(list(log.records))
        self._log = log

    def _query_inside(self, target: tvm.target.Target, workload: AutotvmWorkload) -> Any:
        config = super()._query_inside(target, workload)
        if config is not None:
            return config
        whole, blocks = on_nchw(workload)
        if blocks is None:
            return super()._query_inside(target, whole)
        kernel = self._log.best(whole).get(blocks)
        return None if kernel is None else kernel.config


def _is_blocked(workload: AutotvmWorkload) -> bool:
    """Return whether a template's configurations determine the channel blocks."""
    return str(workload[0]).endswith("conv2d_NCHWc.x86")


def on_nchw(workload: AutotvmWorkload) -> tuple[AutotvmWorkload, Blocks | None]:
    """Return the NCHW workload of a convolution on blocks of channels, and its blocks.

    For a convolution with transformed weights return the one before the transform, and None for the
    blocks; other operators are returned unchanged.
    """
    if workload[0] == f"{_WINOGRAD}_without_weight_transform.cuda":
        _, data, (tensor, kernel, dtype), *rest = workload
        alpha, _, before, after = kernel
        # TVM chooses the tiles of results so.
        extent = alpha + 1 - (4 if data[1][2] % 8 == 0 else 2)
        weight = (tensor, (after, before, extent, extent), dtype)
        return (f"{_WINOGRAD}.cuda", data, weight, *rest), None
    if not _is_blocked(workload) or len(workload[1][1]) != 5:
        return workload, None
    name, (tensor, data, dtype), (_, kernel, kernel_dtype), *rest = workload
    n, chunks, height, width, block = data
    out_chunks, in_chunks, *window, in_block, out_block = kernel
    whole = (out_chunks * out_block, in_chunks * in_block, *window)
    strides, pads, dilations, _, _, result = rest
    on_whole = (
        name,
        (tensor, (n, chunks * block, height, width), dtype),
        (tensor, whole, kernel_dtype),
        *(strides, pads, dilations, "NCHW", "NCHW", result),
    )
    return on_whole, (block, out_block)


def read_autotvm_log(path: Path, target: Any) -> AutotvmLog:
    """Read a log of format 0.2, with one record a line, and require the target to be ours.

    AutoTVM itself would use the records of any CPU. Raise TuningLogError if it is no such log, or
    one of another target.
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
    measure_input = row.get("input")
    if (
        not isinstance(measure_input, list)
        or not measure_input
        or not isinstance(measure_input[0], str)
    ):
        raise TuningLogError(f"{where} names no target: it is no AutoTVM record")
    return row


def _record(line: str, target_name: str, target: tvm.target.Target, where: str) -> tuple[Any, Any]:
    try:
        recorded_target = tvm.target.Target(target_name)
        record = autotvm.record.decode(line)
    except Exception as error:
        reason = str(error).strip().rpartition("\n")[2]
        raise TuningLogError(f"{where} is not what AutoTVM writes: {reason}") from error
    if _machine(recorded_target) != _machine(target):
        raise TuningLogError(
            f"{where} is for the target {target_name!r} and not for {str(target)!r}: tune for "
            "that, or build for the log's target"
        )
    if record is None:
        raise TuningLogError(f"{where} is of a template that TVM {tvm.__version__} does not have")
    return record


def _machine(target: tvm.target.Target) -> tuple[Any, ...]:
    """Return the attributes of a target on which its code depends."""
    attributes = target.attrs
    return (
        target.kind.name,
        *(str(attributes[key]) if key in attributes else "" for key in ("mcpu", "mtriple", "arch")),
        sorted(map(str, attributes["mattr"])) if "mattr" in attributes else [],
    )
