"""Panels of options in ``--help``: for each a function that declares an option in it."""

from __future__ import annotations

from functools import partial

import typer

#: The panels in the order of help pages; options without a panel come first.
ORDER = (
    None,
    "Model and inputs",
    "Search",
    "Target",
    "Fleet",
    "Limits",
    "Running and measuring",
    "Output",
)

model, search, target, fleet, limits, running, output = (
    partial(typer.Option, rich_help_panel=panel) for panel in ORDER[1:]
)
