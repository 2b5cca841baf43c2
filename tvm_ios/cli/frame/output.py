"""Output of all commands: errors in one sentence, JSON alone on stdout, progress on stderr."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from tvm_ios import interrupts
from tvm_ios.cli.frame import panels
from tvm_ios.cli.frame.command_end import running_command
from tvm_ios.cli.frame.groups import with_groups
from tvm_ios.cli.frame.verbose import stderr_console, told_on_stderr
from tvm_ios.errors import UserError

if TYPE_CHECKING:
    from tvm_ios.onnx.tail import Tail

Json = Annotated[bool, panels.output("--json", help="One JSON object on stdout, nothing else.")]
Verbose = Annotated[
    int,
    panels.output(
        "-v",
        "--verbose",
        count=True,
        show_default=False,
        help="Say what is measured, cached and chosen; twice: of each stage.",
    ),
]
Debug = Annotated[bool, panels.output("--debug", help="Show the traceback of an error.")]


@dataclass(frozen=True, kw_only=True)
class Reporting:
    """Options: JSON instead of tables, the log on stderr, tracebacks."""

    as_json: Json = False
    verbose: Verbose = 0
    debug: Debug = False


def reports_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command: add the options of its groups, and report its failures.

    Failures become one sentence on stderr and exit code 1, unless ``--debug`` is given.
    """
    command = with_groups(command)

    @functools.wraps(command)
    def wrapped(**kwargs: Any) -> None:
        try:
            with running_command(), told_on_stderr(kwargs.get("verbose")):
                command(**kwargs)
            sys.stdout.flush()
        except (typer.BadParameter, typer.Exit, typer.Abort):
            raise
        except Exception as error:
            interrupts.raise_if_received()
            if kwargs.get("debug"):
                raise
            # Say nothing if the reader has gone, as in `tvm-ios models | head`.
            if not isinstance(error, BrokenPipeError):
                print(f"tvm-ios: {_sentence(error)}", file=sys.stderr)
            _forget_output()
            raise typer.Exit(1) from None

    return wrapped


def print_json(data: Any) -> None:
    """Write one JSON object to stdout."""
    json.dump(data, sys.stdout)
    sys.stdout.write("\n")


def tell_tail(tail: Tail | str | None) -> str | None:
    """Say on stderr which end of a model is not in the results, if any; return the sentence."""
    if tail is None:
        return None
    sentence = tail if isinstance(tail, str) else tail.sentence
    print(f"tvm-ios: {sentence}", file=sys.stderr)
    return sentence


def console() -> Console:
    """Return the console that prints tables on stdout, 120 columns wide if that is no terminal.

    Print names of a model through ``escape``: they may hold what would be markup.
    """
    stdout = Console(emoji=False)
    return stdout if stdout.is_terminal else Console(width=120, emoji=False)


def counted(number: int, what: str) -> str:
    """Return a number of things as text, such as ``"1 block"`` or ``"1,200 units"``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def left_out_text(reasons: Sequence[str]) -> str:
    """Return a sentence on how many programs could not be built, and why the first could not."""
    return escape(f"{counted(len(reasons), 'program')} left out that cannot be built: {reasons[0]}")


class Bars:
    """Progress bars on stderr, one for each piece of work."""

    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("{task.description:24}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=stderr_console(),
        )
        self._tasks: dict[str, TaskID] = {}
        self._current: str | None = None

    def __call__(self, what: str, done: int, total: int, note: str = "") -> None:
        """Show how much of a piece of work is done, and stop the clocks of all others."""
        interrupts.raise_if_received()
        if not self._tasks:
            self._bars.start()
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total, note=note)
        if what != self._current:
            if self._current is not None:
                # The piece before may have ended early, as a decided contest does.
                self._bars.stop_task(self._tasks[self._current])
            self._bars.tasks[self._tasks[what]].stop_time = None
            self._current = what
        self._bars.update(self._tasks[what], completed=done, total=total, note=note)

    def tell(self, line: str) -> None:
        """Print a line above the bars."""
        self._bars.console.print(line)

    def stop(self) -> None:
        """End the bars, if any was begun."""
        if self._tasks:
            self._bars.stop()


@contextmanager
def progress_bars() -> Generator[Bars]:
    """Yield progress bars, which end with the context."""
    bars = Bars()
    try:
        yield bars
    finally:
        bars.stop()


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return f"this needs more memory than there is: {text or 'nothing more is known'}"
    if isinstance(error, (UserError, OSError)):
        return text
    if isinstance(error, ModuleNotFoundError) and (package := _missing_package(error)):
        return (
            f"this needs the Python package {package!r}, which is not installed: "
            "`pip install tvm-ios` brings it, and what only runs executables does without"
        )
    return (
        f"unexpected {type(error).__name__}: {text[:300]}; "
        "this is a fault of tvm-ios: please report it with the output of --debug"
    )


def _missing_package(error: ModuleNotFoundError) -> str | None:
    """Return the package that a failed import asked for, if nothing of it is installed."""
    package = (error.name or "").partition(".")[0]
    return package if package and find_spec(package) is None else None


def _forget_output() -> None:
    """Drop output that could not be written, so that Python does not try again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
