"""Draw units as boxes on rows, with as much of their names as fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: Width of a letter of 6 points, in points; boxes are labelled if some letters fit.
_LETTER, _FEWEST = 3.7, 3
#: Height of a letter, with what is between lines.
_LINE = 9.0


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle that stands for a unit: milliseconds from left to right, rows from the top.

    ``hatch`` is a Matplotlib hatch pattern, or empty.
    """

    name: str
    colour: str
    left: float
    right: float
    first_row: int
    last_row: int
    hatch: str = ""


def draw_boxes(ax: Any, boxes: list[Box], rows: int, row_name: str, width: float) -> None:
    """Draw boxes as wide as the time that they take, and label the rows.

    ``row_name`` is the label's word, such as ``lane``. ``width`` is the end of the axis in
    milliseconds.
    """
    ax.set_xlim(0, width or 1)
    ax.set_ylim(rows - 0.4, -0.6)
    ax.set_yticks(range(rows), [f"{row_name} {row}" for row in range(rows)])
    points = ax.get_figure().get_size_inches() * 72 * 0.9
    # Of several axes in a figure each has a part of its height.
    row = points[1] * ax.get_position().height / (rows + 0.2)
    for box in boxes:
        across, height = box.right - box.left, box.last_row - box.first_row + 0.84
        ax.broken_barh(
            [(box.left, across)],
            (box.first_row - 0.42, height),
            facecolor=box.colour,
            edgecolor="0.35",
            linewidth=min(0.4, 0.05 * points[0] * across / (width or 1)),
            hatch=box.hatch or None,
        )
        _label(ax, box, points[0] * across / (width or 1), row * height)


def _label(ax: Any, box: Box, across: float, height: float) -> None:
    """Write the last part of a name into a box: upright if narrow, shortened, or not at all."""
    name = box.name.rpartition("/")[2]
    level = across >= _LETTER * min(len(name), _FEWEST + 2)
    if not level and across < _LINE:
        return
    letters = int((across if level else height) / _LETTER)
    if letters < _FEWEST:
        return
    shown = name if len(name) <= letters else f"{name[: letters - 1]}…"
    ax.text(
        (box.left + box.right) / 2,
        (box.first_row + box.last_row) / 2,
        shown,
        ha="center",
        va="center",
        fontsize=6,
        color="black",
        rotation=0 if level else 90,
        clip_on=True,
        # Names over hatches can be read so. (An outline of letters would be paths in a file.)
        bbox={"facecolor": box.colour, "edgecolor": "none", "pad": 0.6} if box.hatch else None,
    )
