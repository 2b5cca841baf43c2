"""Keep another runtime's build of a model if it is faster than ours beyond doubt."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from tvm_ios.api.options import ONNXRUNTIME
from tvm_ios.contest import rules
from tvm_ios.contest.outputs import Reference, difference
from tvm_ios.contest.pairs import PairedRatio
from tvm_ios.contest.rounds import Samples
from tvm_ios.contest.verdict import TVM, Verdict, faster_in_each, ratio_of_all
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.progress import Progress

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.search_options import SearchOptions
    from runtime_ext.execution.built_model import BuiltModel


@dataclass(frozen=True)
class Faster:
    """A runtime, by its name among peers, that was faster than our fastest program.

    ``ratio`` is our program's time to that runtime's, in fresh processes.
    """

    runtime: str
    ratio: PairedRatio


def faster_runtime(
    verdict: Verdict,
    ours: BuiltModel,
    files: Mapping[str, Path],
    reference: Reference,
    options: SearchOptions,
    progress: Progress,
) -> tuple[Faster | None, tuple[str, ...]]:
    """Return the runtime whose build is to be kept (None: our program), and notes on wrong ones.

    A runtime is kept only if its outputs agree with the reference too; there is a sentence for each
    that was faster and disagrees. ``verdict`` is the contest of our programs, in which TVM's own
    build ran once; ``files`` has each runtime's library (``tvm``) or ONNX model (``onnxruntime``).
    Raise UserError if a runtime fails.
    """
    tvm = verdict.confirmed.get(TVM)
    # TVM's build was not faster in the contest, so it is not faster beyond doubt.
    if tvm is None or tvm.low <= 1:
        files = {runtime: file for runtime, file in files.items() if runtime != TVM}
    if not files:
        return None, ()
    from runtime_ext.execution.foreign_build import RUNTIMES

    with temporary_folder() as folder:
        ours.save(folder / "ours")
        faster = _faster(folder / "ours", files, reference.own_error, options, progress)
    wrong: list[str] = []
    for row in faster:
        how = _difference(row.runtime, files[row.runtime], reference, options.lanes)
        if not how:
            return row, tuple(wrong)
        wrong.append(f"{RUNTIMES[row.runtime].title} was faster and is not kept: it {how}")
    return None, tuple(wrong)


def _difference(runtime: str, file: Path, reference: Reference, lanes: int) -> str:
    """Return how a build's outputs differ from the reference; empty if they do not."""
    from runtime_ext.execution.bound_model import bind_library, bind_onnx

    if reference.source is None:
        return ""
    bind = bind_library(file) if runtime == TVM else bind_onnx(file, lanes)
    for sample in reference.samples:
        bound = bind(sample.inputs)
        outputs = sample.compared(bound.outputs(bound.run())[: len(sample.outputs)])
        if how := difference(outputs, sample.outputs, reference.tolerance):
            kind = sample.kind and f"{sample.kind} "
            return f"differs from the result of {reference.source} {kind}{how}"
    return ""


def _faster(
    ours: Path,
    files: Mapping[str, Path],
    own_error: float,
    options: SearchOptions,
    progress: Progress,
) -> list[Faster]:
    """Return the runtimes that are faster than our executable beyond doubt, the fastest first.

    That is: in each of three fresh processes, and with the whole 95 % interval of the ratio of all
    pairs of runs. ``own_error`` is the reference's own error.
    """
    from runtime_ext.peers.side_by_side import SideBySide, run_side_by_side

    name, contests = "ours", list[Samples]()
    runners = SideBySide(
        {name: ours},
        options.lanes,
        rules.CONFIRMATION,
        tuple(files),
        onnx=files.get(ONNXRUNTIME),
        tvm=files.get(TVM),
        precision=options.precision or "float32",
        own_error=own_error,
    )
    processes = rules.CONFIRMING_PROCESSES
    for number in range(processes):
        progress("comparing with other runtimes", number, processes)
        contests.append(run_side_by_side(runners).samples)
        if not any(faster_in_each(runtime, name, contests) for runtime in files):
            break
    progress("comparing with other runtimes", processes, processes)
    faster = [
        Faster(runtime, ratio)
        for runtime in files
        if (ratio := ratio_of_all(contests, name, runtime)).low > 1
        and faster_in_each(runtime, name, contests)
    ]
    return sorted(faster, key=lambda row: row.ratio.median, reverse=True)


def slower_than_tvm(verdict: Verdict) -> tuple[str, ...]:
    """Return a sentence if TVM's own build was compared and faster than the kept program."""
    ratio = verdict.confirmed.get(TVM)
    if ratio is None or ratio.low <= 1:
        return ()
    return (f"TVM's own build was faster: this took {ratio.median:.2f} of its time",)


def require_onnxruntime(loaded: LoadedModel) -> None:
    """Require ONNX Runtime and an ONNX model to compare with, or raise UserError."""
    from runtime_ext.peers.registry import peer_named

    peer_named(ONNXRUNTIME).require_available()
    if loaded.onnx is None:
        raise UserError(
            f"{loaded.name} is no ONNX model, which ONNX Runtime reads: leave out --fallback"
        )


def runtime_files(
    runtimes: Collection[str], tvm_build: Path, loaded: LoadedModel, folder: Path
) -> dict[str, Path]:
    """Return the file that each runtime loads: TVM's own build, or the model as an ONNX file.

    The ONNX file is written to ``folder``, as the user wrote the model.
    """
    files = {TVM: tvm_build} if TVM in runtimes else {}
    if ONNXRUNTIME in runtimes and isinstance(loaded.original, onnx.ModelProto):
        files[ONNXRUNTIME] = folder / "model.onnx"
        files[ONNXRUNTIME].write_bytes(loaded.original.SerializeToString())
    return files


def save_build(
    runtime: str,
    file: Path,
    ours: BuiltModel,
    options: SearchOptions,
    output: Path,
    notes: Mapping[str, Any],
) -> None:
    """Write a runtime's build with the inputs and outputs of our program to ``output``."""
    from runtime_ext.execution.foreign_build import ForeignBuild
    from runtime_ext.machine.cpu_features import required_features

    features = required_features(ours.kernels.target) if runtime == TVM else ()
    inputs, outputs = (
        tuple(replace(port, buffer=port.name) for port in ports)
        for ports in (ours.inputs, ours.outputs)
    )
    ForeignBuild(runtime, file, inputs, outputs, options.lanes, features, notes).save(output)
