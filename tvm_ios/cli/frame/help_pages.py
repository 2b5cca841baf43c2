"""What ``--help`` teaches besides each command's own words: examples, panels, what comes next."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperOption

from tvm_ios.cli.frame.meant_options import suggest

_SHAPE = re.compile(r"[^:\s-][^:\s]*:\d+(,\d+)*")


@dataclass(frozen=True, slots=True)
class HelpPage:
    """What a page shows after the command's docstring.

    Attributes
    ----------
    examples
        Command lines, each with a comment or none.
    then
        What to read or do next.
    """

    examples: tuple[str, ...]
    then: str


#: The panel that an option stands in, by its parameter's name; others stand under "Options".
#: Pages show the panels in this order.
PANELS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "together",
                "dialect",
                "shape",
                "batch",
                "random_weights",
                "random_seed",
                "inputs",
                "seed",
                "state",
            ),
            "Model and inputs",
        ),
        **dict.fromkeys(
            (
                *(
                    "policy",
                    "schedule",
                    "given_schedule",
                    "cost",
                    "from_logs",
                    "measure",
                    "r",
                    "s",
                    "max_block",
                    "reuse",
                    "groups",
                    "fallback",
                    "objective",
                ),
                *(
                    "scheduler",
                    "units",
                    "chains",
                    "in_place",
                    "zero_copy_concat",
                    "rewrite",
                    "fuse_activations",
                    "rpo_from",
                    "parts",
                    "solver",
                    "no_pruning",
                    "no_fusion",
                    "naive_partition",
                    "pareto",
                    "capacity",
                ),
            ),
            "Search",
        ),
        **dict.fromkeys(
            ("target", "arch", "precision", "cudnn", "winograd", "weights", "device"), "Target"
        ),
        **dict.fromkeys(("tracker", "key", "devices", "host", "port", "seen_as"), "Fleet"),
        **dict.fromkeys(
            (
                *("max_measurements", "time_limit", "trials", "max_merges", "max_fused"),
                *("budget", "memory_budget", "all_blocks"),
            ),
            "Limits",
        ),
        **dict.fromkeys(
            (
                *("lanes", "log", "against", "verify", "reference", "with_tvm"),
                *("repeat", "rounds", "seconds", "processes", "warm_up", "compare", "rtol", "atol"),
                *("address", "workers", "anew", "sequential"),
            ),
            "Running and measuring",
        ),
        **dict.fromkeys(
            (
                *("output", "table_format", "plot", "keep", "resume", "compact", "launches"),
                "only_list",
                *("as_json", "verbose", "debug"),
            ),
            "Output",
        ),
    }
)


def command_with_page(function: Callable[..., Any], page: HelpPage) -> TyperCommand:
    """The command of a function, under its name and with its help page."""
    name = function.__name__
    lines = "\n".join(f"  $ {line}" for line in page.examples)
    words = escape(f"{inspect.getdoc(function)}\n\nFor example:\n{lines}")
    app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)
    register = app.command(name, cls=_PanelledCommand, help=words, epilog=f"Next: {page.then}")
    register(function)
    command = typer.main.get_command(app)
    assert isinstance(command, TyperCommand)
    return command


class _PanelledCommand(TyperCommand):
    """A command whose options stand in panels."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for parameter in self.params:
            if isinstance(parameter, TyperOption):
                parameter.rich_help_panel = PANELS.get(parameter.name)
        # Pages show panels in the order in which parameters first name them.
        panels = [None, *dict.fromkeys(PANELS.values())]
        self.params.sort(key=lambda p: panels.index(getattr(p, "rich_help_panel", None)))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, _with_each_shape_named(args))
        except typer.TyperException as error:
            if hasattr(error, "option_name"):
                suggest(error, [option for p in self.params for option in p.opts])
            raise


def _with_each_shape_named(args: list[str]) -> list[str]:
    """Arguments in which shapes that a shell made of ``--shape x:1,{2,3}`` are options each."""
    named: list[str] = []
    for argument in args:
        follows = len(named) > 1 and named[-2] == "--shape" and _SHAPE.fullmatch(named[-1])
        if follows and _SHAPE.fullmatch(argument):
            named.append("--shape")
        named.append(argument)
    return named
