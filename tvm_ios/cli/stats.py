"""``tvm-ios stats``: how large the search space of each block is."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import (
    Reporting,
    console,
    print_json,
    progress_bars,
    reports_errors,
    tell_tail,
)
from tvm_ios.cli.options.model import Batch, Model, Shapes, input_shapes
from tvm_ios.cli.options.search_options import DialectName, DialectOption, Lanes, MaxBlock
from tvm_ios.cli.options.values import bytes_of, refuse, require_known, wrong_use


class Groups(StrEnum):
    """The rule that forms groups: connected components, or a unit with its descendants."""

    connected = "connected"
    rooted = "rooted"


PAGE = HelpPage(
    (
        "tvm-ios stats inception_v3",
        "tvm-ios stats inception_v3 --groups rooted",
        "tvm-ios stats mobilenet_v2 --batch 8 --policy graphturbo --capacity 8M",
        "tvm-ios stats bert.onnx --shape input_ids:1..32,1..512",
    ),
    "`tvm-ios schedule` searches what is counted here.",
)


@reports_errors
def stats(
    model: Model,
    reporting: Reporting,
    groups: Annotated[
        Groups,
        panels.search(
            help="connected: components of the ending (what the search uses); "
            "rooted: a unit and its descendants (as in IOS's published table)."
        ),
    ] = Groups.connected,
    policy: Annotated[
        str | None,
        panels.search(
            help="graphturbo: show the sub-graphs that a CPU's lanes would run as instances."
        ),
    ] = None,
    capacity: Annotated[
        str,
        panels.search(
            metavar="BYTES", help="For --policy graphturbo: what an instance may live in."
        ),
    ] = "1M",
    shape: Shapes = None,
    batch: Batch = None,
    dialect: DialectOption = DialectName.relax,
    lanes: Lanes = None,
    max_block: MaxBlock = 40,
) -> None:
    """Count operators, width, states, transitions and schedules of every block.

    These say how long a search takes: a state is a set of units that may have run, a transition
    a stage that may come next. Width is the most units of a block that could run side by side;
    the bound is what IOS's theorem allows transitions to be, by operators and width alone.
    With --policy graphturbo the coarse sub-graphs of a batch are shown instead. With a range in
    --shape, such as input_ids:1..32,1..512 or image:1,3,64..1024:32,640, it is shown whether one
    graph serves all these shapes, and which numbers in it depend on them.
    """
    from runtime_ext.machine.this_machine import available_lanes
    from tvm_ios.api import operators_and_tail, units_and_tail
    from tvm_ios.ios.counts import BlockCounts, count_block
    from tvm_ios.models.load import blocks_of, load_blocks
    from tvm_ios.models.source import Form, ModelSource

    if any(".." in text for text in shape or ()):
        refuse("a range of shapes has one graph, without blocks", {"--policy": policy})
        refuse("the batch is in the range", {"--batch": batch})
        return _stats_of_range(model, shape or [], reporting)
    shapes = input_shapes(shape)
    source = ModelSource(model, shapes=shapes, batch=batch, dialect=dialect.value)
    if policy is not None:
        from tvm_ios.cli.tables.sub_graphs import print_sub_graphs

        require_known([policy], ["graphturbo"], "--policy")
        size = bytes_of(capacity, "--capacity")
        assert size is not None
        graph, end = operators_and_tail(source)
        tail = tell_tail(end)
        return print_sub_graphs(graph, size, lanes or available_lanes(), tail, reporting.as_json)
    if source.form is Form.BARE and not shapes and batch is None:
        tail, (name, blocks) = None, load_blocks(source, max_block)
    else:
        graph, end = units_and_tail(source)
        tail = tell_tail(end)
        name, blocks = graph.name, blocks_of(graph, max_block)
    counts: list[BlockCounts] = []
    with progress_bars() as update:
        for done, predecessors in enumerate(blocks):
            update("counting", done, len(blocks))
            counts.append(count_block(predecessors, groups.value))
        update("counting", len(blocks), len(blocks))
    if reporting.as_json:
        print_json(
            {
                "model": name,
                "tail": tail,
                "groups": groups.value,
                "blocks": [{**asdict(c), "bound": c.bound} for c in counts],
                "total": {
                    "operators": sum(c.operators for c in counts),
                    "transitions": sum(c.transitions for c in counts),
                },
            }
        )
        return
    table = Table(
        *("block", "operators n", "width d", "states", "transitions", "bound", "schedules"),
        title=escape(name),
    )
    for number, c in enumerate(counts):
        table.add_row(
            str(number),
            str(c.operators),
            str(c.width),
            f"{c.states:,}",
            f"{c.transitions:,}",
            f"{c.bound:.1e}" if c.bound >= 1e6 else f"{c.bound:,.0f}",
            f"{c.schedules:.1e}" if c.schedules >= 1e6 else str(c.schedules),
        )
    console().print(table)


def _stats_of_range(model: str, texts: list[str], reporting: Reporting) -> None:
    """Show the one graph that a model is for a range of shapes."""
    from tvm_ios.cli.tables.opened import print_opened
    from tvm_ios.models.open_model import open_operators
    from tvm_ios.shapes.input_shapes import InputShapeError
    from tvm_ios.shapes.ranges import parse_ranges

    try:
        ranges = parse_ranges(texts)
    except InputShapeError as error:
        raise wrong_use("--shape", error) from error
    with progress_bars() as update:
        opened = open_operators(model, ranges, update)
    print_opened(opened, reporting.as_json)
