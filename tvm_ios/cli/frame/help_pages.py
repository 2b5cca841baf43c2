"""Examples, panels of options and next steps in ``--help``, after a command's docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperCommand

from tvm_ios.cli.frame.meant_options import suggest
from tvm_ios.cli.frame.panels import ORDER

_SHAPE = re.compile(r"[^:\s-][^:\s]*:\d+(,\d+)*")


@dataclass(frozen=True, slots=True)
class HelpPage:
    """Examples and next steps that ``--help`` shows after the command's docstring.

    ``examples`` are command lines, which may end with a comment; ``then`` says what to read or do
    next.
    """

    examples: tuple[str, ...]
    then: str


def command_with_page(function: Callable[..., Any], page: HelpPage) -> TyperCommand:
    """Return a function as a command of its name, with its help page."""
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
    """A command whose options are grouped into panels on its help page."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Pages show panels in the order in which parameters first name them.
        self.params.sort(key=lambda p: ORDER.index(getattr(p, "rich_help_panel", None)))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, _with_each_shape_named(args))
        except typer.TyperException as error:
            if hasattr(error, "option_name"):
                suggest(error, [option for p in self.params for option in p.opts])
            raise


def _with_each_shape_named(args: list[str]) -> list[str]:
    """Return arguments with ``--shape`` before each shape that ``--shape x:1,{2,3}`` expands to."""
    named: list[str] = []
    for argument in args:
        follows = len(named) > 1 and named[-2] == "--shape" and _SHAPE.fullmatch(named[-1])
        if follows and _SHAPE.fullmatch(argument):
            named.append("--shape")
        named.append(argument)
    return named
