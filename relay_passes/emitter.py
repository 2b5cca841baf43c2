"""The interface with which operators are written into a new ``main``, in either dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tvm_ios.graph.merge_rule import MergePlan
from tvm_ios.graphturbo.origins import Origin

#: A shape and a data type.
Kind = tuple[Sequence[int], str]


class Emitter(Protocol):
    """A builder of one function, into which operators of an existing module are written.

    Values are expressions of the dialect.
    """

    #: The instance and unit that are recorded as the origin of what is written next.
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
            Maps tensors of the extraction to values; the operator's results are added.
        shapes
            The shapes of the results, for operators that state them (reshape, broadcast).
        pads
            Pads that replace the operator's own: of windows top, left, bottom, right; of a padding
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
        """Return a slice of a value along some axes; a step may be negative."""
        ...

    def joined(self, values: Sequence[Any], axis: int) -> Any:
        """Return values concatenated along an axis."""
        ...

    def stacked(
        self,
        plan: MergePlan,
        data: Any,
        weights: tuple[Any, Any],
        pads: Sequence[int] | None = None,
    ) -> list[Any]:
        """Write one convolution that merges several units; return the result of each unit.

        ``weights`` are the stacked kernel and bias; ``pads`` replace the plan's if given.
        """
        ...

    def constant_part(self, value: Any, at: tuple[slice, ...]) -> Any | None:
        """Return a slice of a constant, or None if the value is a parameter."""
        ...

    def shape(self, value: Any) -> tuple[int, ...]:
        """Return the extents of a value."""
        ...

    def function(
        self,
        name: str,
        attributes: Mapping[str, int],
        data: Sequence[Kind],
        constants: Sequence[int],
        body: Body,
    ) -> Any:
        """Define a private function beside ``main``; return it for :meth:`call`.

        Parameters
        ----------
        name, attributes
            The function's name and attributes.
        data
            The shapes and types of its first parameters.
        constants
            Tensors of the extraction whose values are the other parameters.
        body
            Called with an emitter for the function and its parameters.
        """
        ...

    def call(self, function: Any, arguments: Sequence[Any], results: int) -> list[Any]:
        """Write a call of a function; return its results. Calls run in the order of writing."""
        ...


#: Returns the origin of each operator of an extraction from a module that an emitter wrote.
OriginsOf = Callable[[Any], list[Origin]]

#: Writes the body of a function, given an emitter and the parameters; returns the results.
Body = Callable[[Emitter, Sequence[Any]], Sequence[Any]]
