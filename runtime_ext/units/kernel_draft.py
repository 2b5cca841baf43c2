"""Drafts of kernels: buffers are still the unit's, axes still the model's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runtime_ext.kernels.spec import Anchor, Statement
from runtime_ext.units.placed import Placed

#: Grid axes (batch, rows, columns, vectors) of an image, as axes of NCHW.
IMAGE = (0, 2, 3, 1)
#: Grid axes of anything else: as they are.
PLAIN = (0, 1, 2, 3)


@dataclass
class KernelDraft:
    """A kernel that may still gain statements."""

    #: The spec without statements; its buffer numbers are storages. None for a pointwise kernel.
    anchor: Anchor | None
    #: The extents of the logical axes.
    extents: tuple[int, int, int, int]
    #: The logical axis of each of the grid's four.
    axes: tuple[int, int, int, int]

    statements: list[Statement] = field(default_factory=list)
    #: Of a transposed convolution: rows and columns of results for each point of the grid, their
    #: channels side by side. Statements refer to the whole result.
    phases: tuple[int, int] = (1, 1)
    #: The kernel itself if it is complete and gains no statements.
    placed: Placed[Any] | None = None

    @property
    def channel_axis(self) -> int:
        """The logical axis along which vectors lie."""
        return self.axes[3]
