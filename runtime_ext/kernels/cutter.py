"""How a device cuts contractions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from runtime_ext.kernels.cut import ContractionCut
from runtime_ext.kernels.spec import Contraction

#: The cut that a contraction should have instead of its own, if any.
Recut = Callable[[Contraction], ContractionCut | None]


class Cutter(Protocol):
    """How a device cuts contractions by default, and packs their weights."""

    def blocking(self, spec: Contraction) -> ContractionCut:
        """The cut of a contraction that has none yet."""
        ...

    def width(self, blocking: ContractionCut) -> int:
        """Output channels of a block of packed weights."""
        ...
