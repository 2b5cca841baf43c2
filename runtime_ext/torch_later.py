"""Keep TVM from importing torch, which takes seconds and which our programs do not need."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_TORCH = "torch"
_TVM = ("tvm_ffi", "tvm")


class _NotYet(MetaPathFinder):
    """An import finder that raises ModuleNotFoundError for torch while TVM is being imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == _TORCH and any(_is_being_imported(package) for package in _TVM):
            raise ModuleNotFoundError(f"TVM does without {_TORCH}", name=name)
        return None


def _is_being_imported(package: str) -> bool:
    # Python's import system detects circular imports by this attribute.
    spec = getattr(sys.modules.get(package), "__spec__", None)
    return getattr(spec, "_initializing", False)


def import_torch_later() -> None:
    """Make later imports of TVM skip torch; models and peers of torch still import it."""
    sys.meta_path.insert(0, _NotYet())
