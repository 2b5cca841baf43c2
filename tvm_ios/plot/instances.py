"""Instances of sub-graphs on their lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm_ios.graph.op_graph import bits
from tvm_ios.graphturbo.instances import Instances
from tvm_ios.plot.boxes import Box, draw_boxes
from tvm_ios.plot.pictures import axes
from tvm_ios.schedule.instance_plan import InstancePlan

#: One for each sub-graph, in turn; light enough for black text.
_COLOURS = ("#7fb2d9", "#f2b880", "#7fcfb9", "#e3b5d0", "#f6ee9f", "#c9ced6", "#e8987f")


def plot_instances(
    instances: Instances,
    plan: InstancePlan,
    seconds: Sequence[float],
    lanes: int,
    *,
    title: str = "",
    ax: Any = None,
) -> Any:
    """Draw when each instance runs on its lane; the number before the point is its sub-graph.

    An instance begins when its lane has done what comes before it in the order, and when the
    instances that it reads from have ended.

    Parameters
    ----------
    instances
        All instances, with what they read.
    plan
        Their order, and their lanes.
    seconds
        For each sub-graph what one of its instances takes on one lane.
    lanes
        How many lanes there are.
    title
        What stands above.
    ax
        Matplotlib axes to draw into; a new figure otherwise.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    UserError
        If matplotlib is not installed.
    """
    ax = axes(ax, (13, 1.5 + 0.55 * lanes))
    number = {(i.subgraph, i.part): place for place, i in enumerate(instances.instances)}
    clocks, ends = [0.0] * lanes, [0.0] * len(instances)
    boxes: list[Box] = []
    for placed in plan.order:
        own = number[placed.subgraph, placed.part]
        first, last = (0, lanes - 1) if placed.lane is None else (placed.lane, placed.lane)
        ready = max((ends[other] for other in bits(instances.predecessors[own])), default=0.0)
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
