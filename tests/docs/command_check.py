"""Whether a command line of a page is one that its program takes, without running it."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import typer

from tests.docs.pages import ROOT, Command
from tvm_ios.cli.frame.commands import SUMMARIES, load_command

#: A wrong use, of whichever click typer brings or is installed with.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
#: Files that pages run, and commands or other programs write: where their source is.
_WRITTEN = {
    "suite/gpu.py": ROOT / "benchmarks" / "gpus" / "gpu.py",
    "BUNDLE/run.py": ROOT / "runtime_ext" / "bundle" / "runner.py",
}
#: Programs of a TVM that has Relay, which is in another environment.
_OF_RELAY = ("tvm.autotvm.record",)
#: Words of usage that stand for numbers, so that types are checked.
_NUMBERS = {"N": "2", "SEED": "2", "SECONDS": "2"}


def fault(command: Command) -> str | None:
    """What is wrong with a command; None if its program would take it.

    Of ``tvm-ios`` the arguments are parsed by the command itself: options, types, choices, numbers
    of arguments. Of Python the file or module must exist and name each option; of make the target;
    of pip the extras.
    """
    words = command.words
    program, rest = words[0].rpartition("/")[2], words[1:]
    if program == "tvm-ios":
        return _of_tvm_ios(rest, command)
    if program == "python":
        return _of_python(rest)
    if program == "make":
        return _of_make(rest)
    if program == "pip":
        return _of_pip(rest)
    return None


#: Making a command of its function takes 10 ms, and pages name hundreds.
_command = cache(load_command)


def _of_tvm_ios(words: list[str], command: Command) -> str | None:
    if not words or words[0].startswith("--") or words[0] == "COMMAND":
        return None
    name, *given = words
    if name not in SUMMARIES:
        return f"there is no command {name!r}"
    arguments = [_NUMBERS.get(word, word) for word in given if word not in ("...", "--help")]
    try:
        with _command(name).make_context(name, arguments):
            return None
    except _UsageError as error:
        # A sentence may name a command, or an option of it, alone.
        unfinished = type(error).__name__ in ("MissingParameter", "BadOptionUsage")
        return None if unfinished and not command.shown else str(error)


def _of_python(words: list[str]) -> str | None:
    if words[0] == "-c":
        compile(words[1], "-c", "exec")
        return None
    module = words[0] == "-m"
    name = words[1] if module else words[0]
    if name in _OF_RELAY:
        return None
    source = _module_file(name) if module else _file(name)
    if source is None:
        return f"there is no {name}"
    text = source.read_text()
    for word in words[2 if module else 1 :]:
        option = re.match(r"--[a-z][a-z-]*", word)
        if option and option[0] != "--help" and f'"{option[0]}"' not in text:
            return f"{name} has no option {option[0]}"
    return None


def _file(name: str) -> Path | None:
    if name.endswith("bundle/run.py"):
        name = "BUNDLE/run.py"
    path = _WRITTEN.get(name, ROOT / name)
    return path if path.is_file() else None


def _module_file(name: str) -> Path | None:
    if name == "benchmarks.ROOM.NAME":
        name = "benchmarks.searching.search"
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:
        # The folder before the last point is not there.
        return None
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin)
    return origin.with_name("__main__.py") if origin.name == "__init__.py" else origin


def _of_make(words: list[str]) -> str | None:
    text = (ROOT / "Makefile").read_text()
    for word in words:
        name, is_variable, _ = word.partition("=")
        known = f"$({name})" in text if is_variable else re.search(rf"^{name}:", text, re.MULTILINE)
        if not known:
            return f"the Makefile knows no {name}"
    return None


@cache
def _extras() -> frozenset[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return frozenset(project["optional-dependencies"])


def _of_pip(words: list[str]) -> str | None:
    for word in words:
        ours = re.fullmatch(r"(?:\.|tvm-ios)\[(.*)\]", word)
        unknown = set(ours[1].split(",")) - _extras() - {"..."} if ours else set()
        if unknown:
            return f"there is no extra {', '.join(sorted(unknown))}"
    return None
