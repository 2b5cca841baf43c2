"""A package whose policies die, fail or wait, and what writes sweeps for it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tvm_ios.extensions import extensions

#: Each worker that does a task notes it; the first of a policy's fate meets it.
_PACKAGE = '''
"""Policies that end badly."""

import os
import signal
import time
from pathlib import Path

from tvm_ios.errors import SearchError
from tvm_ios.policies.policy import Found, Policy
from tvm_ios.policies.sequential import SEQUENTIAL

NOTES = Path(os.environ["SWEEP_NOTES"])


def noted(name, request):
    with (NOTES / name).open("a") as stream:
        stream.write(f"{os.getpid()} {request.problem.units.batch}\\n")
    return len((NOTES / name).read_text().splitlines())


def dies_once(request):
    if noted("dies-once", request) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return SEQUENTIAL.find(request)


def dies(request):
    noted("dies", request)
    os.kill(os.getpid(), signal.SIGKILL)


def fails(request):
    noted("fails", request)
    raise SearchError("this policy finds nothing: take another one")


def breaks(request):
    raise KeyError("a mistake")


def counts(request):
    noted("counts", request)
    print("what nobody asked for")
    return SEQUENTIAL.find(request)


def waits(request):
    noted("waits", request)
    time.sleep(3600)


def naps(request):
    begin = time.monotonic()
    time.sleep(0.3)
    with (NOTES / "naps").open("a") as stream:
        stream.write(f"{request.problem.units.batch} {begin} {time.monotonic()}\\n")
    return SEQUENTIAL.find(request)


DIES_ONCE = Policy("dies-once", "dies once", dies_once)
DIES = Policy("dies", "dies", dies)
FAILS = Policy("fails", "fails", fails)
BREAKS = Policy("breaks", "breaks", breaks)
COUNTS = Policy("counts", "counts", counts)
WAITS = Policy("waits", "waits", waits)
NAPS = Policy("naps", "naps", naps)
'''

_ENTRY_POINTS = """
[tvm_ios.policies]
dies-once = odd_policies:DIES_ONCE
dies = odd_policies:DIES
fails = odd_policies:FAILS
breaks = odd_policies:BREAKS
counts = odd_policies:COUNTS
waits = odd_policies:WAITS
naps = odd_policies:NAPS
"""


@contextmanager
def odd_policies(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package as ``pip`` would install it, for workers too; gives where they note tasks."""
    site, notes = folder / "site", folder / "notes"
    about = site / "odd_policies-1.0.dist-info"
    about.mkdir(parents=True)
    notes.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-policies\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(_ENTRY_POINTS)
    (site / "odd_policies.py").write_text(_PACKAGE)
    patch.syspath_prepend(site)
    before = os.environ.get("PYTHONPATH", "")
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), before])))
    patch.setenv("SWEEP_NOTES", str(notes))
    extensions.cache_clear()
    yield notes
    extensions.cache_clear()


def sweep_file(folder: Path, **keys: object) -> Path:
    """A sweep of a small network on a described device, but for what is given."""
    values: dict[str, object] = {
        "models": ["lstm_small"],
        "devices": ["v100"],
        "policies": ["sequential"],
        **keys,
    }
    path = folder / "sweep.toml"
    lines = [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]
    path.write_text("\n".join(["[sweep]", *lines, ""]))
    return path


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # Numbers and texts are as in JSON.
    return json.dumps(value)
