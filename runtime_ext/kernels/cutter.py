"""The interface by which a device cuts contractions and recurrences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from runtime_ext.kernels.cut import ContractionCut
from runtime_ext.kernels.spec import Contraction

#: Returns the cut that a contraction should have instead of its own, or None.
Recut = Callable[[Contraction], ContractionCut | None]


class Cutter(Protocol):
    """The default cuts of kernels for a device, for which weights are packed."""

    def blocking(self, spec: Contraction) -> ContractionCut:
        """Return the cut of a contraction that has none yet."""
        ...

    def width(self, blocking: ContractionCut) -> int:
        """Return the output channels of a block of packed weights."""
        ...

    def recurrent_width(self) -> int:
        """Return the elements of a state in a block of a recurrence's packed weights.

        Raise UserError if the device has no kernel of recurrences.
        """
        ...
