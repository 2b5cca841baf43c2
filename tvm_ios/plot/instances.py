"""Draw instances of sub-graphs on their lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_ios.plot.boxes import Box, draw_boxes
from tvm_ios.plot.colours import COLOURS
from tvm_ios.plot.pictures import axes
from tvm_ios.schedule.instance_plan import InstancePlan

#: An instance: its sub-graph, and the number of its part.
Part = tuple[int, int]

#: One for each sub-graph, in turn.
_COLOURS = tuple(COLOURS.values())


def plot_instances(
    plan: InstancePlan,
    sources: Mapping[Part, Sequence[Part]],
    seconds: Sequence[float],
    lanes: int,
    *,
    title: str = "",
    ax: Any = None,
) -> Any:
    """Draw when each instance, labelled ``subgraph.part``, runs on its lane.

    An instance begins when its lane has finished the earlier ones of the order and the instances
    that it reads from (``sources``) have ended. ``seconds`` has for each sub-graph the time of one
    instance on one lane. Without ``ax`` a new figure is made. Raise UserError if Matplotlib is not
    installed.
    """
    ax = axes(ax, (13, 1.5 + 0.55 * lanes))
    clocks, ends = [0.0] * lanes, dict[Part, float]()
    boxes: list[Box] = []
    for placed in plan.order:
        own = (placed.subgraph, placed.part)
        first, last = (0, lanes - 1) if placed.lane is None else (placed.lane, placed.lane)
        ready = max((ends[other] for other in sources[own]), default=0.0)
        begin = max(ready, *clocks[first : last + 1])
        end = begin + seconds[placed.subgraph] / (last - first + 1)
        ends[own] = end
        clocks[first : last + 1] = [end] * (last - first + 1)
        colour = _COLOURS[placed.subgraph % len(_COLOURS)]
        name = f"{placed.subgraph}.{placed.part}"
        boxes.append(Box(name, colour, begin * 1e3, end * 1e3, first, last))
    draw_boxes(ax, boxes, lanes, "lane", max(clocks) * 1e3)
    ax.set_xlabel("milliseconds")
    ax.set_title(title, fontsize=10)
    return ax
