"""Running ``tvm-ios`` as a user does, in this process or in one of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.brief import shorten
from tests.refusals import require_names
from tvm_ios.cli import app

#: The command line with brief contests.
_BRIEF = Path(__file__).parents[1] / "brief.py"


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        assert self.code == 0, self.stderr
        assert self.stdout.count("\n") == 1, "nothing else may stand on stdout"
        document = json.loads(self.stdout)
        assert isinstance(document, dict)
        return document

    @property
    def sentence(self) -> str:
        """The stated failure: the last line on stderr, and nothing on stdout."""
        assert self.code == 1, (self.code, self.stderr)
        assert self.stdout == ""
        assert "Traceback" not in self.stderr
        # Progress bars may come before it.
        last = self.stderr.strip().splitlines()[-1]
        assert last.startswith("tvm-ios: "), self.stderr
        return last.removeprefix("tvm-ios: ")

    def refuses(self, *names: object) -> None:
        """Require a stated failure that names these things."""
        require_names(self.sentence, *names)


def tvm_ios(*arguments: object) -> Outcome:
    """Run a command in this process; an exception that it does not report fails the test."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)


def tvm_ios_briefly(*arguments: object) -> Outcome:
    """Run a command in this process, with brief contests."""
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch.setattr)
        return tvm_ios(*arguments)


def tvm_ios_process(*arguments: object, brief: bool = False) -> Outcome:
    """Run a command in a process of its own, as the script does, or with brief contests."""
    program = [str(_BRIEF)] if brief else ["-m", "tvm_ios"]
    command = [sys.executable, *program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    return Outcome(done.returncode, done.stdout, done.stderr)
