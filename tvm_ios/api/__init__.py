"""The front door: functions that do what the commands do.

``optimizer.py``
    From a model to the fastest program: load, search, build, time, verify, choose, save.
``options.py``, ``result.py``, ``job.py``
    The options and the result of that call, and the record that its phases share.
``timers/``
    The ways to time programs: here, on a fleet, on a device, or by described costs.
``candidates.py``, ``reference.py``, ``exactness.py``, ``outcomes.py``
    Schedules and their programs, the outputs that these must compute and how exactly, and one line
    of result for each policy.
``fallback.py``, ``tvm_build.py``
    Keep another runtime's build of the model if it is faster; TVM's own build.
``destination.py``, ``deployments/``
    Where a program is saved: an executable of its own, or a deployment of many programs.
``throughput.py``, ``served.py``
    Choose the program and the number of workers that serve the most requests a second; the
    measurements of the ways that were compared.
``tails.py``
    Check that a model that was cut in two computes the same.
``units.py``
    Models as graphs of operators or units.
``tune.py``, ``bundle.py``, ``accelerator.py``
    Tune a model's kernels; pack a model for other machines; plan it for an accelerator.
``trace.py``, ``documents/``, ``programs.py``
    Write the trace of a run for Perfetto; executables and bundles as plain data and pages; load
    saved programs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_ios.api.optimizer import optimize
    from tvm_ios.api.options import Options
    from tvm_ios.api.programs import load
    from tvm_ios.api.throughput import optimize_throughput
    from tvm_ios.api.units import load_operators, load_units, operators_and_tail, units_and_tail

__all__ = [
    "Options",
    "load",
    "load_operators",
    "load_units",
    "operators_and_tail",
    "optimize",
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
    "optimize_throughput": "throughput",
    "units_and_tail": "units",
}


def __getattr__(name: str) -> Any:
    # Loading a model's units must not wait for imports that only measuring needs.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
