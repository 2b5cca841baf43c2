"""The commands by name, each imported when it is called: ``--help`` needs none of their files."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from tvm_ios.cli.frame.help_pages import HelpPage

#: The summaries in ``tvm-ios --help``: the first line of each command's own page.
SUMMARIES: Mapping[str, str] = MappingProxyType(
    {
        "models": "List the networks that can be named instead of a file.",
        "stats": "Count operators, width, states, transitions and schedules of every block.",
        "schedule": "Find a schedule, without building anything (except for --cost measured).",
        "optimize": "Find the fastest schedule of a model, check it, and save an executable.",
        "run": "Run an executable on given or random inputs, and time it.",
        "info": "Say what an executable is: inputs, outputs, target, lanes, versions, files.",
        "pick": "Show which program of a deployment would be taken, and why.",
        "prune": "Remove programs of a deployment.",
        "memory": "Order the operators of a model for the least peak memory, or place buffers.",
        "explain": "Say what bounds an executable, block by block, and what would help.",
        "check": "Name each pair of launches that may run in either order on the same bytes.",
        "report": "Show an executable, or what a bundle found, on a page of HTML.",
        "trace": "Write a run of an executable as a trace that Perfetto shows.",
        "bench": "Optimise models and time them beside peers on as many threads.",
        "sweep": "Search models x batches x shapes x devices x policies, and cross what is found.",
        "doctor": "Look at this installation and machine, and say what to do about what is wrong.",
        "tune": "Find faster kernels for a model on this machine, and keep them in a log.",
        "server": "Let others measure on this machine, by TVM's RPC server and a tracker.",
        "bundle": "Compile a model here, to search, verify and measure it on a machine without a "
        "compiler.",
    }
)


def load_command(name: str) -> TyperCommand:
    """Import a command from the file of its name, with its options and help page."""
    from tvm_ios.cli.frame.help_pages import command_with_page

    function = getattr(import_module(f"tvm_ios.cli.{name}"), name)
    return command_with_page(function, help_page(name))


def help_page(name: str) -> HelpPage:
    """Return the examples and next steps that a command's ``--help`` shows."""
    return import_module(f"tvm_ios.cli.{name}").PAGE


class Commands(TyperGroup):
    """The program's commands, of which only names and summaries are known before one is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: _NamedCommand(name, help=text) for name, text in SUMMARIES.items()}


class _NamedCommand(TyperCommand):
    """A command that becomes the real one when its arguments are parsed."""

    def make_context(self, info_name: str | None, *arguments: Any, **options: Any) -> Any:
        assert self.name is not None
        return load_command(self.name).make_context(info_name, *arguments, **options)
