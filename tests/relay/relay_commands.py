"""Commands with ``--dialect relay``, run in this process."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from tvm_ios.cli import app

RELAY = ["--dialect", "relay"]


def command(*arguments: object, code: int = 0) -> Any:
    """What a command says: its JSON, or with another exit code what stands on stderr."""
    done = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    assert done.exit_code == code, (done.stderr, done.exception)
    return json.loads(done.stdout) if code == 0 else " ".join(done.stderr.split())
