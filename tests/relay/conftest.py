"""These tests need a TVM with Relay, which `make relay-env` makes in .venv-relay."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def _has_relay() -> bool:
    found = importlib.util.find_spec("tvm")
    return found is not None and (Path(str(found.origin)).parent / "relay").is_dir()


# The TVM of the usual environment has Relax only, and `make test` runs these in the other one.
collect_ignore_glob = [] if _has_relay() else ["*.py"]
