"""The front door for programs: what the commands do, as functions.

``measured.py``
    Optimise a model by measuring on this machine.
``unmeasured.py``
    Compile a model for a machine that is not here, by described costs.
``accelerator.py``
    Plan a model for a described accelerator.
``on_device.py``, ``verified_on_device.py``, ``device_results.py``
    Schedule a model for a timing device of another package: search, compare there, keep.
``units.py``
    Load a model as operators, or as units.
``tune.py``, ``bundle.py``
    Tune a model's kernels; pack a model for other machines.
``trace.py``
    A run for Perfetto.
``documents/``
    An executable's run and a bundle's results as plain data, and pages of them.
``tails.py``
    Whether a model that was cut in two computes the same.
``candidates.py``, ``contests.py``, ``fleet_contests.py``, ``located.py``, ``optimized.py``
    What ``optimize`` tries, how it compares, here and on a fleet, where a wrong program goes wrong,
    and what it gives.
``outcomes.py``
    What became of each policy: which are worth a program, and a line for each.
``throughput.py``
    Optimise a model for many requests a second, in the place of the time of one.
``exactness.py``
    Forms of units that round more than others stay only in programs that are exact enough.
``destination.py``
    Where a program goes that was kept.
``deployments/``
    Make a deployment: what its programs are made for, how one becomes an entry, and what other
    machines recorded.
``programs.py``
    Load what was saved.
``fallback.py``
    Another runtime's build in the place of ours, where it is faster.
``tvm_build.py``
    TVM's own build of the model, made when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_ios.api.measured import optimize
    from tvm_ios.api.programs import load
    from tvm_ios.api.throughput import optimize_throughput
    from tvm_ios.api.units import load_operators, load_units, operators_and_tail, units_and_tail
    from tvm_ios.api.unmeasured import compile_unmeasured

__all__ = [
    "compile_unmeasured",
    "load",
    "load_operators",
    "load_units",
    "operators_and_tail",
    "optimize",
    "optimize_throughput",
    "units_and_tail",
]

_MODULES = {
    "compile_unmeasured": "unmeasured",
    "load": "programs",
    "load_operators": "units",
    "load_units": "units",
    "operators_and_tail": "units",
    "optimize": "measured",
    "optimize_throughput": "throughput",
    "units_and_tail": "units",
}


def __getattr__(name: str) -> Any:
    # Loading a model's units must not wait for the import of all that measuring needs.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
