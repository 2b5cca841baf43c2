"""The front door: functions that do what the commands do."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_ios.api.optimizer import optimize
    from tvm_ios.api.options import Options
    from tvm_ios.api.programs import load
    from tvm_ios.api.ranges import optimize_range
    from tvm_ios.api.throughput import optimize_throughput
    from tvm_ios.api.units import load_operators, load_units, operators_and_tail, units_and_tail

__all__ = [
    "Options",
    "load",
    "load_operators",
    "load_units",
    "operators_and_tail",
    "optimize",
    "optimize_range",
    "optimize_throughput",
    "units_and_tail",
]

_MODULES = {
    "Options": "options",
    "load": "programs",
    "load_operators": "units",
    "load_units": "units",
    "operators_and_tail": "units",
    "optimize": "optimizer",
    "optimize_range": "ranges",
    "optimize_throughput": "throughput",
    "units_and_tail": "units",
}


def __getattr__(name: str) -> Any:
    # Loading a model's units must not wait for imports that only measuring needs.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
