"""Families of operators, each with a colour in pictures."""

from __future__ import annotations

from enum import StrEnum

from tvm_ios.graph.operators import ELEMENT_WISE, POOLS


class Family(StrEnum):
    """The kind of work of a unit, by the heaviest of its operators."""

    CONVOLUTION = "convolution"
    PRODUCT = "matrix product"
    POOLING = "pooling"
    NORMALISATION = "normalisation"
    ELEMENTS = "element by element"
    MOVES = "data movement"
    OTHER = "other"


_OF_KIND: dict[str, Family] = {
    **dict.fromkeys(ELEMENT_WISE | {"bias_add", "max", "min", "where"}, Family.ELEMENTS),
    **dict.fromkeys(("concat", "reshape", "transpose", "pad", "slice", "split"), Family.MOVES),
    **dict.fromkeys(("cast", "expand", "gather", "resize2d"), Family.MOVES),
    **dict.fromkeys(("softmax", "layer_norm", "lrn"), Family.NORMALISATION),
    **dict.fromkeys(POOLS, Family.POOLING),
    **dict.fromkeys(("dense", "matmul"), Family.PRODUCT),
    **dict.fromkeys(("conv2d", "conv2d_transpose", "conv", "convtranspose"), Family.CONVOLUTION),
}
#: The heaviest first.
_BY_WEIGHT = (
    *(Family.CONVOLUTION, Family.PRODUCT, Family.OTHER),
    *(Family.NORMALISATION, Family.POOLING, Family.ELEMENTS, Family.MOVES),
)


def family_of(kind: str) -> Family:
    """Return the family of a unit's kind, such as ``conv2d+bias_add+relu``."""
    families = {_OF_KIND.get(operator, Family.OTHER) for operator in kind.split("+")}
    return next(family for family in _BY_WEIGHT if family in families)
