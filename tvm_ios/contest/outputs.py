"""Whether two programs compute the same: errors of outputs, and what is more than rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array

#: Above this, relative to the largest output, a difference is not one of rounding; by precision.
#: Ten bits of fraction, as GPUs have in tf32 and float16, are 5e-4 of each number. Quantised models
#: round: of a number just between two steps, of which eight bits have 255, either may be taken, and
#: the next layers carry it on.
LARGEST_ERRORS: Mapping[str, float] = MappingProxyType(
    {"float32": 1e-3, "tf32": 2e-2, "float16": 2e-2, "quantised": 5e-2}
)


class VerificationError(UserError):
    """A scheduled model that does not compute what the unscheduled one does."""


@dataclass(frozen=True)
class Reference:
    """What every program of a model has to compute.

    Attributes
    ----------
    inputs
        The arrays of the inputs, by name.
    outputs
        In the model's order, of the unscheduled model in float32.
    precision
        The precision of the programs, one of :data:`LARGEST_ERRORS`.
    source
        Whose outputs they are.
    tvm_errors
        Largest absolute and relative error of TVM's own build.
    """

    inputs: Mapping[str, Array]
    outputs: Sequence[Array]
    precision: str = "float32"
    source: str = "TVM's own build"
    tvm_errors: tuple[float, float] = (0.0, 0.0)


def verify_outputs(
    policy: str, outputs: Sequence[Array], reference: Reference
) -> tuple[float, float]:
    """Largest absolute and relative error of a policy's outputs.

    Raises
    ------
    VerificationError
        If the relative one is not that of rounding; names the policy.
    """
    absolute, relative = output_errors(outputs, reference.outputs)
    if not relative <= LARGEST_ERRORS[reference.precision]:
        raise VerificationError(
            f"the {policy} schedule differs from the result of {reference.source} by "
            f"{relative:.1e} of the largest output; please report this model"
        )
    return absolute, relative


def output_errors(outputs: Sequence[Array], reference: Sequence[Array]) -> tuple[float, float]:
    """Largest absolute error, and largest error relative to an output's largest value.

    Infinities and NaN agree with the same in the same places, as masks and logarithms make them;
    elsewhere they, and other shapes, are an infinite error.
    """
    if [a.shape for a in outputs] != [b.shape for b in reference]:
        return float("inf"), float("inf")
    absolute = relative = 0.0
    for ours, theirs in zip(outputs, reference, strict=True):
        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
        finite = np.isfinite(theirs)
        if not np.array_equal(np.where(finite, 0, ours), np.where(finite, 0, theirs), True):
            return float("inf"), float("inf")
        difference = np.abs(ours[finite] - theirs[finite])
        worst = float(np.max(np.where(np.isfinite(difference), difference, np.inf), initial=0.0))
        scale = float(np.max(np.abs(theirs[finite]), initial=0.0)) or 1.0
        absolute, relative = max(absolute, worst), max(relative, worst / scale)
    return absolute, relative
