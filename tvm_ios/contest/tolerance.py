"""What difference between outputs is one of rounding: one rule for whatever compares programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tvm_ios.files.array_files import Array

#: By the precision of the programs: ten bits of fraction, as GPUs have in tf32 and float16, are
#: 5e-4 of each number.
_LARGEST: Mapping[str, float] = MappingProxyType({"float32": 1e-3, "tf32": 2e-2, "float16": 2e-2})
#: Of a number just between two steps, of which eight bits have 255, either may be taken, and the
#: next layers carry it on.
_QUANTISED = 5e-2


def tolerance(precision: str, outputs: Iterable[Array], *, quantised: bool) -> float:
    """The largest difference, relative to the largest number of an output, that rounding makes.

    Parameters
    ----------
    precision
        What the programs compute in: ``float32``, ``tf32`` or ``float16``.
    outputs
        The reference; results are no more exact than their types.
    quantised
        Whether the model rounds numbers, as :func:`rounds` says.
    """
    if any(str(output.dtype) in ("float16", "bfloat16") for output in outputs):
        precision = "float16"
    return max(_LARGEST[precision], _QUANTISED if quantised else 0.0)


def rounds(kinds: Iterable[str]) -> bool:
    """Whether units of these kinds round numbers, as those of quantised models do."""
    return any("round" in kind.split("+") for kind in kinds)
