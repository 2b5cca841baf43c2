"""What can be put into another order, and the module that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm_ios.graph.op_graph import OpGraph

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True)
class Reordering:
    """A module that has no schedule yet.

    Attributes
    ----------
    graph
        The graph whose operators can be moved.
    present
        The order that they have now.
    apply
        Makes the module with another order of them.
    """

    graph: OpGraph
    present: tuple[int, ...]
    apply: Callable[[Sequence[int]], tvm.IRModule]
