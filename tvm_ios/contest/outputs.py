"""Compare outputs of programs: errors, and differences that are more than rounding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tvm_ios.contest.tolerance import Tolerance, tolerance, widened
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array

#: Largest absolute error, and largest error relative to an output's largest value.
Errors = tuple[float, float]
#: Outputs whose largest value is below this count as this large: with float32's relative tolerance
#: that allows two units in the last place of 1. Other runtimes compute a sigmoid far from zero no
#: more exactly: ONNX Runtime's is off by 1.4e-7.
_SMALLEST = 2.4e-4


class Verify(StrEnum):
    """The source of the outputs that programs are compared with."""

    #: The framework that the model came from, if it is installed.
    onnx = "onnx"
    #: TVM's own build of the unscheduled model.
    tvm = "tvm"
    #: Nothing is compared.
    off = "off"


#: The end of the sentence of a :class:`VerificationError`.
REPORT = "; please report this model"


class VerificationError(UserError):
    """A program's outputs are wrong.

    The sentence says which program differs from what, and how much, and ends with :data:`REPORT`;
    ``policy`` is the program's, empty if it has none.
    """

    def __init__(self, sentence: str, policy: str = "") -> None:
        super().__init__(sentence)
        self.policy = policy

    def located(self, where: str) -> VerificationError:
        """Return the same error with a phrase about where the difference arises."""
        sentence = str(self).removesuffix(REPORT)
        return VerificationError(f"{sentence}{where and f', {where}'}{REPORT}", self.policy)


#: The kind of a sample at the edges of operators.
EDGES = "for inputs with infinities, ties or last indices"
#: The kind of a sample with NaN, which spreads to all that reads it, and over tiles of
#: convolutions.
NAN = "for inputs with NaN"


@dataclass(frozen=True)
class Sample:
    """Inputs of a model by name, and its outputs in order, in float32 if a GPU computes in less.

    ``kind`` describes special inputs, as a part of a sentence.
    """

    inputs: Mapping[str, Array]
    outputs: Sequence[Array] = ()
    kind: str = ""

    def compared(self, outputs: Sequence[Array]) -> Sequence[Array]:
        """Return a program's outputs, or the sample's own where any number is right.

        In a sample of spreading NaN, NaN is required only where the sample has it: a tile of a
        program may have it in more places.
        """
        if self.kind != NAN or [a.shape for a in outputs] != [b.shape for b in self.outputs]:
            return outputs
        pairs = zip(outputs, self.outputs, strict=True)
        return [np.where(theirs == theirs, theirs, ours) for ours, theirs in pairs]


@dataclass(frozen=True)
class Reference:
    """The outputs that every program of a model must compute."""

    #: At least one; programs are timed on the inputs of the first.
    samples: Sequence[Sample]
    #: The precision of the programs: ``float32``, ``tf32``, ``float16`` or ``bfloat16``.
    precision: str = "float32"
    #: Whether the model rounds numbers.
    quantised: bool = False
    #: Name of the framework that computed the outputs; None if nothing is compared, and the samples
    #: have no outputs.
    source: str | None = "TVM's own build"
    #: Outputs of TVM's own build for the first samples, if it is compared too; not for NaN.
    tvm_outputs: Sequence[Sequence[Array]] = ()
    #: Error of the outputs by rounding alone, relative to the largest; 0 unless it was measured.
    own_error: float = 0.0

    @property
    def tolerance(self) -> Tolerance:
        """The largest difference between programs that compute the same."""
        outputs = self.samples[0].outputs
        limit = tolerance(self.precision, outputs, quantised=self.quantised)
        return widened(limit, self.own_error)

    @property
    def tvm_errors(self) -> Errors | None:
        """The errors of TVM's own build; None if it was not compared."""
        errors = [
            output_errors(outputs, sample.outputs)
            for outputs, sample in zip(self.tvm_outputs, self.samples, strict=False)
        ]
        return largest_errors(errors) if errors else None

    @property
    def tvm_difference(self) -> str:
        """The first difference of TVM's own build beyond rounding; empty if there is none."""
        pairs = zip(self.tvm_outputs, self.samples, strict=False)
        differences = (difference(o, sample.outputs, self.tolerance) for o, sample in pairs)
        return next(filter(None, differences), "")


def largest_errors(errors: Iterable[Errors]) -> Errors:
    """Return the largest absolute and the largest relative error."""
    absolute, relative = zip(*errors, strict=True)
    return max(absolute), max(relative)


def verify_outputs(
    policy: str, outputs: Sequence[Array], sample: Sample, reference: Reference
) -> Errors:
    """Return the errors of a policy's outputs for one sample.

    Raise VerificationError, which names the policy, if they are more than rounding.
    """
    outputs = sample.compared(outputs)
    if how := difference(outputs, sample.outputs, reference.tolerance):
        raise VerificationError(
            f"the {policy} schedule differs from the result of {reference.source} "
            f"{sample.kind and f'{sample.kind} '}{how}{REPORT}",
            policy,
        )
    return output_errors(outputs, sample.outputs)


def difference(outputs: Sequence[Array], reference: Sequence[Array], limit: Tolerance) -> str:
    """Describe how outputs differ by more than rounding, as a part of a sentence; empty if not."""
    pairs = list(zip(outputs, reference, strict=False))
    if len(outputs) != len(reference) or any(a.shape != b.shape for a, b in pairs):
        return "in the shapes of its outputs"
    for place, (ours, theirs) in enumerate(pairs):
        count = _wrong_integers(ours, theirs, limit) if theirs.dtype.kind in "biu" else 0
        if count:
            return (
                f"in {count} of {theirs.size} integers or truth values of output {place}, which "
                "have to be equal (where rounding decides between scores, export these as outputs, "
                "or compare nothing by --verify off)"
            )
    numbers = [pair for pair in pairs if pair[1].dtype.kind not in "biu"]
    _, relative = output_errors([a for a, _ in numbers], [b for _, b in numbers])
    if relative <= limit.relative:
        return ""
    if math.isinf(relative):
        return "in the places of NaN or infinities"
    return f"by {relative:.1e} of the largest output"


def _wrong_integers(ours: Array, theirs: Array, limit: Tolerance) -> int:
    # Compare in the integers' own types: as floats, large different ones may be equal.
    wrong = ours != theirs
    if limit.steps and theirs.dtype.kind in "iu" and theirs.dtype.itemsize <= 2:
        wrong &= np.abs(ours.astype(np.float64) - theirs) > limit.steps
    return int(np.count_nonzero(wrong))


def output_errors(outputs: Sequence[Array], reference: Sequence[Array]) -> Errors:
    """Return the largest absolute error, and the largest relative to an output's largest value.

    That value counts as at least 2.4e-4, and as 1 if all are zero. Infinities and NaN agree with
    the same in the same places, as masks and logarithms make them; otherwise they, and other
    shapes, are an infinite error.
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
        largest = float(np.max(np.abs(theirs[finite]), initial=0.0))
        scale = max(largest, _SMALLEST) if largest else 1.0
        absolute, relative = max(absolute, worst), max(relative, worst / scale)
    return absolute, relative
