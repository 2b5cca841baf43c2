"""The operators of a module that can be reordered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm_ios.graph.op_graph import OpGraph

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True)
class Reordering:
    """The operators of a module without a schedule, and the means to reorder them.

    ``present`` is their order now; ``apply`` returns the module with them in another order.
    """

    graph: OpGraph
    present: tuple[int, ...]
    apply: Callable[[Sequence[int]], tvm.IRModule]
