"""The panels of options in ``--help``, each as the way to declare an option that stands in it."""

from __future__ import annotations

from functools import partial

import typer

#: In the order in which pages show them; options without a panel come first.
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
