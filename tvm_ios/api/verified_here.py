"""Whether a program that nobody measured computes what it should, where this machine can tell."""

from __future__ import annotations

import platform
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from tvm_ios.api.contests import reference_for
from tvm_ios.api.tvm_build import TvmBuild
from tvm_ios.contest.contest import verified
from tvm_ios.contest.outputs import Verify
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.progress import Progress

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.search_options import SearchOptions
    from runtime_ext.execution.built_model import BuiltModel


def verify_here(
    loaded: LoadedModel,
    policy: str,
    program: BuiltModel,
    options: SearchOptions,
    verify: Verify,
    report: Progress,
) -> str | None:
    """Compare the outputs of a program with what they should be, if this machine's CPU runs it.

    Parameters
    ----------
    loaded
        The model.
    policy, program
        Its program, and whose schedule that runs.
    options
        Lanes and precision.
    verify
        What it is compared with.
    report
        Called with (what, done, total).

    Returns
    -------
    str or None
        Whose outputs it was compared with; None if it was not.

    Raises
    ------
    VerificationError
        If it computes something else.
    """
    from runtime_ext.machine.cpu_features import missing_features, required_features
    from runtime_ext.machine.this_machine import available_lanes
    from runtime_ext.target_architecture import cuda_arch
    from runtime_ext.verification.reference import judged

    target = options.resolved_target
    if verify is Verify.off or options.fleet is not None or options.lanes > available_lanes():
        return None
    if cuda_arch(target) is not None or _machine(target) not in ("", platform.machine()):
        return None
    if missing_features(required_features(target)):
        return None
    with temporary_folder() as folder, closing(program.session()) as session:
        own = TvmBuild(loaded, options, folder / "tvm.so", report)
        reference = reference_for(
            loaded, program, own, options, verify, report, on_cpu=True, beside_tvm=False
        )
        reference, _ = judged(loaded.original, reference, partial(verified, policy, session))
    return reference.source


def _machine(target: Any) -> str:
    """The machine that a target's triple names, as ``uname`` does; empty if it has none."""
    return str(target.attrs.get("mtriple", "")).partition("-")[0]
