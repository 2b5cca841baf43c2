"""Whether two programs compute the same: errors of outputs, and what is more than rounding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
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


#: Largest absolute error, and largest error relative to an output's largest value.
Errors = tuple[float, float]


class Verify(StrEnum):
    """What programs are compared with."""

    #: What the framework that the model came from makes of it, where that is here.
    onnx = "onnx"
    #: TVM's own build of the unscheduled model.
    tvm = "tvm"
    #: Nothing.
    off = "off"


#: How the sentence of a :class:`VerificationError` ends.
REPORT = "; please report this model"


class VerificationError(UserError):
    """A program that does not compute what it should.

    Parameters
    ----------
    sentence
        Which program differs from what, and how much; ends with :data:`REPORT`.
    policy
        The policy of the program; empty if it is of none.
    """

    def __init__(self, sentence: str, policy: str = "") -> None:
        super().__init__(sentence)
        self.policy = policy

    def located(self, where: str) -> VerificationError:
        """The same error, with what is known of where the difference arises."""
        sentence = str(self).removesuffix(REPORT)
        return VerificationError(f"{sentence}{where and f', {where}'}{REPORT}", self.policy)


#: The kind of a sample at the edges of operators.
EDGES = "for inputs with infinities, ties or last indices"


@dataclass(frozen=True)
class Sample:
    """Inputs of a model and what it makes of them.

    Attributes
    ----------
    inputs
        Arrays by the names of the inputs.
    outputs
        In the model's order, in float32 where a GPU computes in less.
    kind
        What is special about the inputs, as a part of a sentence.
    """

    inputs: Mapping[str, Array]
    outputs: Sequence[Array] = ()
    kind: str = ""


@dataclass(frozen=True)
class Reference:
    """What every program of a model has to compute.

    Attributes
    ----------
    samples
        At least one; programs are timed on the inputs of the first.
    precision
        The precision of the programs, one of :data:`LARGEST_ERRORS`.
    source
        Whose outputs they are; None if nothing is compared, and the samples have no outputs.
    tvm_outputs
        What TVM's own build computes of the samples, if it is compared too.
    """

    samples: Sequence[Sample]
    precision: str = "float32"
    source: str | None = "TVM's own build"
    tvm_outputs: Sequence[Sequence[Array]] = ()

    @property
    def tvm_errors(self) -> Errors | None:
        """The errors of TVM's own build; None if it was not compared."""
        errors = [
            output_errors(outputs, sample.outputs)
            for outputs, sample in zip(self.tvm_outputs, self.samples, strict=False)
        ]
        return largest_errors(errors) if errors else None

    @property
    def tvm_agrees(self) -> bool:
        """Whether TVM's own build differs by rounding only, as far as that is known."""
        errors = self.tvm_errors
        return errors is None or is_rounding(errors, self.precision)


def is_rounding(errors: Errors, precision: str) -> bool:
    """Whether errors are as small as those of rounding; NaN is not."""
    return errors[1] <= LARGEST_ERRORS[precision]


def precision_of(outputs: Iterable[Array], precision: str) -> str:
    """The precision of programs with these outputs: no more than the types of these have."""
    narrow = any(str(output.dtype) in ("float16", "bfloat16") for output in outputs)
    return "float16" if narrow else precision


def largest_errors(errors: Iterable[Errors]) -> Errors:
    """The largest absolute and the largest relative one."""
    absolute, relative = zip(*errors, strict=True)
    return max(absolute), max(relative)


def verify_outputs(
    policy: str, outputs: Sequence[Array], sample: Sample, reference: Reference
) -> Errors:
    """The errors of a policy's outputs for one sample.

    Raises
    ------
    VerificationError
        If the relative one is not that of rounding; names the policy.
    """
    errors = output_errors(outputs, sample.outputs)
    if not is_rounding(errors, reference.precision):
        raise VerificationError(
            f"the {policy} schedule differs from the result of {reference.source} "
            f"{sample.kind and f'{sample.kind} '}by {errors[1]:.1e} of the largest output"
            f"{REPORT}",
            policy,
        )
    return errors


def output_errors(outputs: Sequence[Array], reference: Sequence[Array]) -> Errors:
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
