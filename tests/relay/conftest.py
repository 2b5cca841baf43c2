"""These tests need a TVM with Relay, which `make relay-env` makes in .venv-relay."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def _has_relay() -> bool:
    found = importlib.util.find_spec("tvm")
    return found is not None and (Path(str(found.origin)).parent / "relay").is_dir()


# The TVM of the usual environment has Relax only, and `make test` runs these in the other one.
collect_ignore_glob = [] if _has_relay() else ["*.py"]


@pytest.fixture(scope="session", autouse=True)
def build_information() -> None:
    """Kept from the beginning: TVM's own builds ask for it, too."""
    from runtime_ext.relay.build_information import keep_build_information

    keep_build_information()
