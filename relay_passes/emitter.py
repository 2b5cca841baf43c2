"""How operators are written into a new ``main``, whatever the dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tvm_ios.graph.merge_rule import MergePlan
from tvm_ios.graphturbo.origins import Origin

#: A shape and a data type.
Kind = tuple[Sequence[int], str]


class Emitter(Protocol):
    """Writes operators of one module into a function that is being built.

    Values are the dialect's own.

    Attributes
    ----------
    origin
        Where what is written next comes from.
    """

    origin: Origin

    def operator(
        self,
        op: int,
        values: dict[int, Any],
        shapes: Mapping[int, Sequence[int]],
        pads: Sequence[int] | None = None,
    ) -> None:
        """Write an operator for inputs of other extents than it was written for.

        Parameters
        ----------
        op
            The operator's number in the extraction.
        values
            Maps tensors of the extraction to values; gets the operator's results.
        shapes
            The shapes of the results, where the operator has them written down.
        pads
            Pads instead of those that it has: of windows top, left, bottom, right; of a padding
            before and after, axis by axis.
        """
        ...

    def sliced(
        self,
        value: Any,
        axes: Sequence[int],
        begins: Sequence[int],
        ends: Sequence[int],
        steps: Sequence[int],
    ) -> Any:
        """Ranges of some axes of a value; a step may be negative."""
        ...

    def joined(self, values: Sequence[Any], axis: int) -> Any:
        """Values joined along an axis."""
        ...

    def stacked(
        self,
        plan: MergePlan,
        data: Any,
        weights: tuple[Any, Any],
        pads: Sequence[int] | None = None,
    ) -> list[Any]:
        """One convolution for several units, and what each of them makes.

        ``weights`` are the stacked kernel and bias; ``pads`` other ones than the plan's.
        """
        ...

    def constant_part(self, value: Any, at: tuple[slice, ...]) -> Any | None:
        """Some elements of a constant; None of a parameter."""
        ...

    def shape(self, value: Any) -> tuple[int, ...]:
        """The extents of a value."""
        ...

    def function(
        self,
        name: str,
        attributes: Mapping[str, int],
        data: Sequence[Kind],
        constants: Sequence[int],
        body: Body,
    ) -> Any:
        """A private function beside ``main``, to be given to :meth:`call`.

        Parameters
        ----------
        name, attributes
            The function's name and attributes.
        data
            The shapes and types of its first parameters.
        constants
            Tensors of the extraction whose values are the other parameters.
        body
            Called with an emitter for it and its parameters.
        """
        ...

    def call(self, function: Any, arguments: Sequence[Any], results: int) -> list[Any]:
        """So many results of a function; calls run in the order in which they are written."""
        ...


#: For each operator of what was extracted from a module that an emitter wrote its origin.
OriginsOf = Callable[[Any], list[Origin]]

#: Writes what a function does with its parameters and returns the results.
Body = Callable[[Emitter, Sequence[Any]], Sequence[Any]]
