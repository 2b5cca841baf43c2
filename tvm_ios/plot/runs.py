"""Draw runs: what every lane did, launch by launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tvm_ios.graph.operator_families import family_of
from tvm_ios.plot.boxes import Box, draw_boxes
from tvm_ios.plot.colours import COLOURS, add_legend
from tvm_ios.plot.pictures import axes


class LaunchSpan(Protocol):
    """The lane of a launch, and when it ran in seconds since the run began."""

    @property
    def lane(self) -> int: ...  # noqa: D102
    @property
    def begin(self) -> float: ...  # noqa: D102
    @property
    def end(self) -> float: ...  # noqa: D102


class UnitLaunchSpan(LaunchSpan, Protocol):
    """A launch that also knows its unit of the program."""

    @property
    def unit(self) -> int: ...  # noqa: D102


def plot_profile(
    spans: Sequence[LaunchSpan],
    names: Sequence[str],
    kinds: Sequence[str] | None = None,
    *,
    title: str = "",
    ax: Any = None,
) -> Any:
    """Draw what every lane did in one run; idle time stays white.

    ``spans`` is the result of ``Session.profile`` of a warm session. ``names`` and ``kinds`` have
    the unit and its operator's kind, which decides the colour, of each span. Without ``ax`` a new
    figure is made.
    """
    lanes = 1 + max((span.lane for span in spans), default=0)
    ax = axes(ax, (13, 1.5 + 0.55 * lanes))
    families = [family_of(kind) for kind in (kinds or [""] * len(spans))]
    boxes = [
        Box(name, COLOURS[family], span.begin * 1e3, span.end * 1e3, span.lane, span.lane)
        for span, name, family in zip(spans, names, families, strict=True)
    ]
    draw_boxes(ax, boxes, lanes, "lane", max((box.right for box in boxes), default=0.0))
    ax.set_xlabel("milliseconds")
    ax.set_title(title, fontsize=10)
    if kinds is not None:
        add_legend(ax, families)
    return ax


def plot_run(
    steps: Sequence[UnitLaunchSpan],
    names: Sequence[str],
    kinds: Sequence[str],
    blocks: Sequence[Sequence[int]],
    *,
    title: str = "",
    ax: Any = None,
) -> Any:
    """Draw one run of a program, with the number of each block where it begins.

    ``steps`` is :attr:`tvm_ios.explain.timeline.Timeline.steps`. ``names`` and ``kinds`` are those
    of the program's units; ``blocks`` has the units of each block. Without ``ax`` a new figure is
    made.
    """
    ax = plot_profile(
        steps,
        [names[step.unit] for step in steps],
        [kinds[step.unit] for step in steps],
        title=title,
        ax=ax,
    )
    end, beyond = ax.get_xlim()[1], 0.0
    for number, units in enumerate(blocks):
        inside = frozenset(units)
        begin = min((step.begin * 1e3 for step in steps if step.unit in inside), default=None)
        if begin is None:
            continue
        ax.axvline(begin, color="0.3", linewidth=0.5, linestyle=":")
        # Numbers would lie on each other where blocks are short.
        if begin >= beyond:
            ax.text(begin, -0.46, str(number), fontsize=7, va="bottom")
            beyond = begin + 0.02 * end
    return ax
