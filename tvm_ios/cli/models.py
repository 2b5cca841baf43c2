"""``tvm-ios models``: the zoo."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from tvm_ios.cli.output import Debug, Json, console, print_json, progress_bars, reports_errors


@reports_errors
def models(as_json: Json = False, debug: Debug = False) -> None:
    """List the networks that can be named instead of a file.

    Each is built as an ONNX model with seeded weights; the table says how large it is.
    """
    from tvm_ios import zoo
    from tvm_ios.blocks import cut_blocks
    from tvm_ios.models import load_graph

    rows: list[dict[str, Any]] = []
    names = zoo.names()
    with progress_bars() as update:
        for done, name in enumerate(names):
            update("building the zoo", done, len(names))
            graph = load_graph(name)
            shape = list(graph.tensors[graph.inputs[0]].shape)
            rows.append(
                {
                    "name": name,
                    "input": shape,
                    "operators": len(graph),
                    "blocks": len(cut_blocks(graph)),
                }
            )
        update("building the zoo", len(names), len(names))
    if as_json:
        print_json({"models": rows})
        return
    table = Table("name", "input", "units", "blocks", "what it is")
    for row in rows:
        shape = "x".join(map(str, row["input"]))
        what = zoo.describe(row["name"]).summary
        table.add_row(row["name"], shape, str(row["operators"]), str(row["blocks"]), what)
    console().print(table)
