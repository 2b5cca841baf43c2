"""Rewrite ``Einsum`` as matrix products, for which there are kernels and rules."""

from __future__ import annotations

from math import prod
from string import ascii_letters
from typing import Any

from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.steps import Steps

#: A value and the letters of its axes.
_Term = tuple[Any, str]


def expand_einsum(graph: Any, node: Any, opset: int) -> None:
    """Write an Einsum as sums, transposes and one ``MatMul`` for each further operand.

    Operands are multiplied from left to right. An axis that is summed and occurs in one operand
    alone is summed first; an axis of both operands that stays is a batch axis of the product. The
    node stays if it has a diagonal (``ii``), broadcast axes of extent 1, or dynamic extents.
    """
    if node.op_type != "Einsum" or any(not _is_static(value) for value in node.inputs):
        return
    equation = node.attributes.get_string("equation", "").replace(" ", "")
    parsed = _terms(equation, [tuple(value.shape) for value in node.inputs])
    if parsed is None:
        return
    terms, result = parsed
    extents: dict[str, int] = {}
    for letters, value in zip(terms, node.inputs, strict=True):
        if len(set(letters)) < len(letters):
            return
        for letter, extent in zip(letters, value.shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                return
    writer = _Writer(Steps(graph, node, opset), extents)
    product: _Term = (node.inputs[0], terms[0])
    for place in range(1, len(terms)):
        needed = set(result).union(*terms[place + 1 :])
        product = writer.product(product, (node.inputs[place], terms[place]), needed)
    value, letters = writer.summed(product, set(result))
    value = writer.steps.transposed(value, [letters.index(letter) for letter in result])
    if value in node.inputs:
        value = writer.steps.op("Identity", value)
    writer.steps.stand_for(value)


def _is_static(value: Any) -> bool:
    return value is not None and value.shape is not None and value.shape.is_static()


def _terms(equation: str, shapes: list[tuple[int, ...]]) -> tuple[list[str], str] | None:
    """Return the letters of each operand and of the result, with letters in place of an ellipsis.

    Return None if the equation does not fit operands of these shapes.
    """
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        return None
    counts = [
        len(shape) - len(term.replace("...", "")) for term, shape in zip(terms, shapes, strict=True)
    ]
    pairs = list(zip(counts, terms, strict=True))
    if any(count < 0 or (count and "..." not in term) for count, term in pairs):
        return None
    more = max((count for count, term in pairs if "..." in term), default=0)
    free = [letter for letter in ascii_letters if letter not in equation]
    if more > len(free):
        return None
    dots = "".join(free[:more])
    # An ellipsis of fewer axes stands for the last ones.
    terms = [term.replace("...", dots[more - count :]) for count, term in pairs]
    if arrow:
        result = result.replace("...", dots)
    else:
        written = left.replace(",", "").replace(".", "")
        result = dots + "".join(sorted(letter for letter in written if written.count(letter) == 1))
    indices, result_letters = set("".join(terms)), set(result)
    sound = len(result_letters) == len(result) and result_letters <= indices <= set(ascii_letters)
    return (terms, result) if sound else None


class _Writer:
    def __init__(self, steps: Steps, extents: dict[str, int]) -> None:
        self.steps, self.extents = steps, extents

    def summed(self, term: _Term, needed: set[str]) -> _Term:
        """Return a term summed over the axes that are not needed."""
        value, letters = term
        axes = [axis for axis, letter in enumerate(letters) if letter not in needed]
        return self.steps.summed(value, axes), "".join(x for x in letters if x in needed)

    def product(self, a: _Term, b: _Term, needed: set[str]) -> _Term:
        """Return the product of two terms, summed over the axes that are not needed later."""
        a = self.summed(a, needed | set(b[1]))
        b = self.summed(b, needed | set(a[1]))
        if constant(a[0]) is not None and constant(b[0]) is None:
            a, b = b, a  # weights are the second operand of a product
        both = [x for x in a[1] if x in b[1]]
        batch = [x for x in both if x in needed]
        inner = [x for x in both if x not in needed]
        rows = [x for x in a[1] if x not in b[1]]
        columns = [x for x in b[1] if x not in a[1]]
        # Without a batch the rows may be several axes.
        merged = [rows] if batch or not rows else [[x] for x in rows]
        left = self._matrix(a, [*([x] for x in batch), *merged, inner])
        right = self._matrix(b, [*([x] for x in batch), inner, columns])
        letters = "".join([*batch, *rows, *columns])
        extents = [*(self.extents[x] for x in batch), *map(self._extent, merged)]
        value = self.steps.op("MatMul", left, right)
        whole = [self.extents[x] for x in letters]
        return self.steps.reshaped(value, [*extents, self._extent(columns)], whole), letters

    def _matrix(self, term: _Term, axes: list[list[str]]) -> Any:
        """Return a term transposed to these letters; each list is merged into one axis."""
        value, letters = term
        order = [letter for axis in axes for letter in axis]
        value = self.steps.transposed(value, [letters.index(letter) for letter in order])
        old = [self.extents[letter] for letter in order]
        return self.steps.reshaped(value, old, [self._extent(axis) for axis in axes])

    def _extent(self, letters: list[str]) -> int:
        return prod(self.extents[letter] for letter in letters)
