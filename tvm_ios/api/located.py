"""Where a program that does not compute what it should goes wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tvm_ios.contest.outputs import Reference, VerificationError, Verify
from tvm_ios.progress import Progress

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.search_options import SearchOptions
    from runtime_ext.execution.built_model import BuiltModel


def located(
    error: VerificationError,
    loaded: LoadedModel,
    built: Mapping[str, BuiltModel],
    reference: Reference,
    options: SearchOptions,
    verify: Verify,
    progress: Progress,
    *,
    on_cpu: bool,
) -> VerificationError:
    """The same error with the first operator whose output differs, as far as it can be told.

    Parameters
    ----------
    error
        Names the policy.
    loaded, built
        The model, and its programs by policy.
    reference
        What they have to compute.
    options, verify, progress, on_cpu
        As of :func:`tvm_ios.api.contests.compare_policies`.
    """
    from relay_passes.first_wrong_operator import first_wrong_operator
    from runtime_ext.execution.first_wrong_unit import first_wrong_unit

    inputs = [sample.inputs for sample in reference.samples]
    if error.policy == "sequential":
        where = first_wrong_operator(loaded, inputs, options, verify, progress)
    else:
        where = "while the program of one unit after another is right"
        programs = built["sequential"], built[error.policy]
        units = (first_wrong_unit(*programs, i, reference.tolerance) for i in inputs if on_cpu)
        # A program that is wrong may also fail, and that it is wrong is what there is to say.
        with contextlib.suppress(Exception):
            if (unit := next(filter(None, units), None)) is not None:
                where = f"first after unit {unit}, {where}"
    return error.located(where)
