"""The one graph of a model for a range of shapes, as a table and as JSON."""

from __future__ import annotations

from collections import Counter

from rich.markup import escape
from rich.table import Table

from tvm_ios.cli.frame.output import console, print_json
from tvm_ios.graph.open_graph import OpenGraph
from tvm_ios.shapes.extent import is_open
from tvm_ios.shapes.fitting import values_text


def print_opened(opened: OpenGraph, as_json: bool) -> None:
    """Print the symbols of an open graph, and how many numbers depend on them."""
    graph = opened.graph
    is_tensor_open = [any(map(is_open, shape)) for shape in opened.shapes]
    expressions = Counter(str(e) for shape in opened.shapes for e in shape if is_open(e))
    if as_json:
        print_json(
            {
                "model": graph.name,
                "symbols": [
                    {"name": s.name, "least": s.least, "most": s.most} for s in opened.symbols
                ],
                "operators": len(graph),
                "tensors": len(graph.tensors),
                "open_tensors": sum(is_tensor_open),
                "expressions": dict(expressions.most_common()),
                "compared_at": [dict(point) for point in opened.points],
                "special": [{"at": dict(point), "reason": why} for point, why in opened.special],
            }
        )
        return
    table = Table("extent", "of so many dimensions", title=escape(graph.name))
    for expression, count in expressions.most_common():
        table.add_row(escape(expression), str(count))
    console().print(table)
    ranges = ", ".join(f"{s.name} from {s.least} to {s.most}" for s in opened.symbols)
    console().print(
        escape(
            f"one graph serves all shapes with {ranges}: {len(graph)} operators, "
            f"{sum(is_tensor_open)} of {len(graph.tensors)} tensors are open; it was compared at "
            f"{len(opened.points)} shapes"
        )
    )
    for point, why in opened.special:
        at = values_text(point)
        console().print(f"[yellow]{escape(f'at {at} {why}')}[/yellow]")
