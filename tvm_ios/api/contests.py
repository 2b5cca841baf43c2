"""The contest of a model's policies: against TVM's own build, and against each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.api.candidates import Candidates
from tvm_ios.contest import rules
from tvm_ios.contest.contest import hold_contest
from tvm_ios.contest.outputs import LARGEST_ERRORS, Reference, output_errors
from tvm_ios.contest.rounds import Samples
from tvm_ios.contest.verdict import TVM, Verdict
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.progress import Progress
from tvm_ios.schedule.first_difference import is_quantised

if TYPE_CHECKING:
    from onnx import ModelProto

    from relay_passes.search_options import SearchOptions


def compare_policies(
    candidates: Candidates,
    tvm_build: Path,
    options: SearchOptions,
    allowed: Collection[str],
    progress: Progress,
    lap: Callable[[str], None],
    *,
    beside_tvm: bool,
    model: ModelProto | None = None,
) -> Verdict:
    """Verify and time the policies' programs, and say which to keep.

    Parameters
    ----------
    candidates
        The programs.
    tvm_build
        What TVM made of the unscheduled model for this CPU, a ``.so``.
    options
        Lanes and precision.
    allowed
        The policies that may be kept.
    progress, lap
        As of :func:`tvm_ios.contest.contest.hold_contest`.
    beside_tvm
        Whether TVM's own build is timed too, not only compared with.
    model
        The ONNX model as it is written: what ONNX Runtime makes of it is what is right, and else
        what TVM does.

    Raises
    ------
    VerificationError
        If a program computes something else.
    """
    from runtime_ext.peers.onnx_outputs import onnx_outputs
    from runtime_ext.peers.side_by_side import SideBySide, run_side_by_side
    from runtime_ext.peers.tvm_peer import start_library

    quantised = is_quantised(candidates.built["sequential"].schedule.get("graph", {}))
    precision = options.precision or ("quantised" if quantised else "float32")
    with closing(candidates.built["sequential"].session()) as session:
        inputs = session.random_inputs(0)
    # In float16 only what a GPU stores is so; TVM computes the model as it is.
    widened = {"float16": "float32"} if precision == "float16" else {}
    tvm_inputs = {n: v.astype(widened.get(str(v.dtype), v.dtype)) for n, v in inputs.items()}
    tvm = start_library(tvm_build, tvm_inputs)
    reference = Reference(inputs, tvm.outputs(tvm.run()), precision)
    if model is not None and (result := onnx_outputs(model, [*tvm_inputs.values()])) is not None:
        outputs, source = result
        errors = output_errors(reference.outputs, outputs)
        reference = Reference(inputs, outputs, precision, source, errors)
    tvm_error = reference.tvm_errors[1]
    tvm_agrees = tvm_error <= LARGEST_ERRORS[precision]
    # What computes something else is not compared with.
    beside_tvm = beside_tvm and tvm_agrees
    with temporary_folder() as folder:

        def time_elsewhere(policies: Sequence[str], process: int) -> Samples:
            for policy in policies:
                if not (folder / policy).exists():
                    candidates.built[policy].save(folder / policy)
            # TVM's own is compared once: it differs more.
            peers = (TVM,) if beside_tvm and process == 0 else ()
            outcome = run_side_by_side(
                SideBySide(
                    {policy: folder / policy for policy in policies},
                    options.lanes,
                    rules.CONFIRMATION,
                    peers,
                    tvm=tvm_build,
                    precision=precision,
                )
            )
            if TVM in outcome.failed:
                raise UserError(f"TVM's own build failed: {outcome.failed[TVM]}")
            return outcome.samples

        verdict = hold_contest(
            candidates.schedules,
            lambda policy: candidates.built[policy].session(),
            reference,
            time_elsewhere,
            progress,
            tvm=tvm.run if beside_tvm else None,
            allowed=allowed,
            lap=lap,
        )
    if tvm_agrees:
        return verdict
    sentence = (
        f"TVM's own build differs from the result of {reference.source} by {tvm_error:.1e} of the "
        "largest output, so it was not compared with"
    )
    return replace(verdict, skipped={**verdict.skipped, TVM: sentence})
