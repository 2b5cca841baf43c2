"""The largest differences between outputs that count as rounding: one rule for all comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tvm_ios.files.array_files import Array

#: The largest relative difference, by the precision of programs. The ten fraction bits of tf32 and
#: float16 on GPUs change each number by up to 5e-4, the seven of bfloat16 by 4e-3 (on most
#: processors only the weights).
_LARGEST: Mapping[str, float] = MappingProxyType(
    {"float32": 1e-3, "tf32": 2e-2, "float16": 2e-2, "bfloat16": 2e-2}
)
#: A number just between two of the 255 steps of eight bits may be rounded to either, and the next
#: layers carry the difference on.
_QUANTISED = 5e-2
#: The tolerance as a multiple of the reference's own error, and its maximum. Two programs that add
#: up in different orders are as far from each other as from the exact result.
_OF_REFERENCE, _MOST = 4, 2e-2


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The largest differences that count as rounding."""

    #: Difference of an output's numbers, relative to the largest of them.
    relative: float
    #: Difference of integers of 8 and 16 bits, which may be quantised numbers. All other integers,
    #: such as indices, and truth values have to be equal: the scores that decided them, and how
    #: close these were, are unknown.
    steps: int = 0


def tolerance(precision: str, outputs: Iterable[Array], *, quantised: bool) -> Tolerance:
    """Return the largest difference between programs that counts as rounding.

    ``precision`` is that of the programs: ``float32``, ``tf32``, ``float16`` or ``bfloat16``;
    ``outputs`` are the reference, whose types limit exactness; ``quantised`` says whether the model
    rounds numbers, as by :func:`rounds`.
    """
    if any(str(output.dtype) in ("float16", "bfloat16") for output in outputs):
        precision = "float16"
    limit = _LARGEST[precision]
    return Tolerance(max(limit, _QUANTISED), 1) if quantised else Tolerance(limit)


def widened(limit: Tolerance, error: float) -> Tolerance:
    """Return a tolerance that allows for the reference's own error of rounding.

    It is at most 2e-2 of the largest number, however large that error is, so that wrong programs
    are still found.
    """
    return replace(limit, relative=max(limit.relative, min(_OF_REFERENCE * error, _MOST)))


def rounds(kinds: Iterable[str]) -> bool:
    """Return whether units of these kinds round numbers, as those of quantised models do."""
    return any("round" in kind.split("+") for kind in kinds)
