"""These tests need a TVM with Relay, which `make relay-env` makes in .venv-relay."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest


def _has_relay() -> bool:
    found = importlib.util.find_spec("tvm")
    return found is not None and (Path(str(found.origin)).parent / "relay").is_dir()


# The TVM of the usual environment has Relax only, and `make test` runs these in the other one.
collect_ignore_glob = [] if _has_relay() else ["*.py"]


@pytest.fixture(scope="session", autouse=True)
def build_information() -> Iterator[None]:
    """Kept: TVM compiles it anew, in milliseconds, for every shape that it lowers."""
    from tvm.relay.backend import te_compiler

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(te_compiler, "libinfo", cache(te_compiler.libinfo))
        yield
