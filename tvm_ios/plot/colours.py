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
    """Name the families that were drawn below the figure, together with those of its other axes.

    ``more`` gives the meaning of each hatch.
    """
    from matplotlib.patches import Patch

    drawn, hatches = {family.value for family in families}, dict(more or {})
    for earlier in ax.figure.legends:
        names = [text.get_text() for text in earlier.get_texts()]
        drawn.update(names)
        hatched = zip(earlier.legend_handles, names, strict=True)
        hatches.update((box.get_hatch(), name) for box, name in hatched if box.get_hatch())
        earlier.remove()
    patches = [
        Patch(facecolor=colour, edgecolor="0.4", linewidth=0.4, label=family.value)
        for family, colour in COLOURS.items()
        if family.value in drawn
    ]
    patches += [
        Patch(facecolor="white", edgecolor="0.4", hatch=hatch, label=label)
        for hatch, label in hatches.items()
    ]
    ax.figure.legend(
        handles=patches,
        loc="outside lower center",
        ncols=max(1, len(patches)),
        frameon=False,
        fontsize=8,
    )
