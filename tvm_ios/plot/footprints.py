"""Draw the memory that orders of execution take over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_ios.plot.pictures import axes


def plot_footprints(
    curves: Mapping[str, Sequence[int]], *, budget: int | None = None, ax: Any = None
) -> Any:
    """Draw the memory of several orders of a graph over time.

    ``curves`` has each order's stable footprints in bytes, by name. ``budget``, in bytes, is drawn
    as a line. Without ``ax`` a new figure is made.
    """
    ax = axes(ax, (12, 3.2))
    for number, (name, footprints) in enumerate(curves.items()):
        kib, colour = [nbytes / 1024 for nbytes in footprints], f"C{number}"
        label = f"{name}: at most {max(kib, default=0.0):,.0f} KiB"
        inside = (colour, 0.15)
        ax.stairs(kib, fill=True, facecolor=inside, edgecolor=colour, linewidth=1.0, label=label)
    if budget is not None:
        ax.axhline(budget / 1024, color="0.3", linestyle=":", label=f"budget: {budget / 1024:,.0f}")
    ax.set_ylim(0)
    ax.set_xlabel("operators executed")
    ax.set_ylabel("KiB")
    ax.legend(fontsize=8)
    return ax
