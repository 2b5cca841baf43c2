"""TVM imports torch, for seconds, to hand over tensors that programs of ours never make."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_TORCH = "torch"
_TVM = ("tvm_ffi", "tvm")


class _NotYet(MetaPathFinder):
    """Finds no torch while TVM is being imported, which does without it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == _TORCH and any(_is_being_imported(package) for package in _TVM):
            raise ModuleNotFoundError(f"TVM does without {_TORCH}", name=name)
        return None


def _is_being_imported(package: str) -> bool:
    # What Python's own import system asks, to find imports in a circle.
    spec = getattr(sys.modules.get(package), "__spec__", None)
    return getattr(spec, "_initializing", False)


def import_torch_later() -> None:
    """From now on, import torch only where it is needed: for models and peers of torch."""
    sys.meta_path.insert(0, _NotYet())
