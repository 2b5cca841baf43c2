"""A colour for each family of operators, the same in every picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from tvm_ios.graph.operator_families import Family

#: Okabe and Ito's colours, which the colour-blind can tell apart, lightened for black text.
COLOURS: Mapping[Family, str] = MappingProxyType(
    {
        Family.CONVOLUTION: "#7fb2d9",
        Family.PRODUCT: "#f2b880",
        Family.POOLING: "#7fcfb9",
        Family.NORMALISATION: "#e3b5d0",
        Family.ELEMENTS: "#f6ee9f",
        Family.MOVES: "#c9ced6",
        Family.OTHER: "#e8987f",
    }
)


def add_legend(ax: Any, families: Iterable[Family], more: Mapping[str, str] | None = None) -> None:
    """Name the families that were drawn, below the picture.

    Parameters
    ----------
    ax
        Matplotlib axes.
    families
        Those that were drawn.
    more
        What hatches mean, by the hatch.
    """
    from matplotlib.patches import Patch

    drawn = set(families)
    patches = [
        Patch(facecolor=colour, edgecolor="0.4", linewidth=0.4, label=family.value)
        for family, colour in COLOURS.items()
        if family in drawn
    ]
    patches += [
        Patch(facecolor="white", edgecolor="0.4", hatch=hatch, label=label)
        for hatch, label in (more or {}).items()
    ]
    ax.figure.legend(
        handles=patches,
        loc="outside lower center",
        ncols=max(1, len(patches)),
        frameon=False,
        fontsize=8,
    )
