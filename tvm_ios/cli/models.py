"""``tvm-ios models``: the zoo."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from tvm_ios.cli.frame.help_pages import HelpPage
from tvm_ios.cli.frame.output import Debug, Json, console, print_json, reports_errors

PAGE = HelpPage(
    ("tvm-ios models",), "`tvm-ios stats NAME` counts what there is to schedule in one."
)


@reports_errors
def models(as_json: Json = False, debug: Debug = False) -> None:
    """List the networks that can be named instead of a file.

    Each is an ONNX model with seeded weights; the table says how large it is.
    """
    from tvm_ios import zoo

    rows: list[dict[str, Any]] = []
    for name in zoo.names():
        network = zoo.describe(name)
        shape = list(next(iter(network.input_shapes.values())))
        sizes = {"operators": network.units, "blocks": network.blocks}
        rows.append({"name": name, "input": shape, **sizes})
    if as_json:
        print_json({"models": rows})
        return
    table = Table("name", "input", "units", "blocks", "what it is")
    for row in rows:
        shape = "x".join(map(str, row["input"]))
        what = zoo.describe(row["name"]).summary
        table.add_row(row["name"], shape, str(row["operators"]), str(row["blocks"]), what)
    console().print(table)
