"""Inter-operator scheduling without TVM: graphs, schedules, costs and the search for schedules.

:func:`tvm_ios.api.optimize` does it all for a model file. The passes, such as ``IOSSchedule``, are
in :mod:`relay_passes`; what builds and runs their modules is in :mod:`runtime_ext`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "torch_report":
        return import_module("tvm_ios.torch_compile.report").torch_report
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tvm_ios.distributions import installed_versions

    return next(iter(installed_versions().values()), "not installed")
