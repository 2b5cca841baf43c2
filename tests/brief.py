"""Measuring that ends soon, where who is faster is not asked: ``shorten``.

Whole contests spend seconds on waiting until no thread is busy, and beside other tests no sample
is undisturbed, however often it is taken. In a fast run kernels are not optimised either. As a
program this runs ``tvm-ios``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from runtime_ext.cpu import device as cpu_device
from tests.fast_run import is_fast
from tvm_ios.api import range_schedules
from tvm_ios.contest import rules

#: The fewest that have an interval.
_ROUNDS = 6

#: Puts an attribute of a module: ``setattr``, or that of a monkeypatch.
Put = Callable[[object, str, object], None]


def shorten(put: Put = setattr) -> None:
    """Make the contests of this process, also those that it has held elsewhere, brief ones."""
    for name in ("SELECTION", "CONFIRMATION", "THROUGHPUT"):
        put(rules, name, replace(getattr(rules, name), rounds=_ROUNDS))
    take_first_samples(put)


def take_first_samples(put: Put = setattr) -> None:
    """Do not wait for a moment without other work."""
    put(cpu_device, "_TRIES", 1)


def search_ranges_briefly(put: Put = setattr) -> None:
    """Search schedules of ranges at one shape, and hold few rounds of their contests."""
    put(range_schedules, "_SEARCHED", 1)
    for name in ("_SELECTION", "_CONFIRMATION"):
        put(range_schedules, name, replace(getattr(range_schedules, name), rounds=_ROUNDS))


def compile_quickly(put: Put = setattr) -> None:
    """Do not optimise the code of kernels, which takes most of the time of compiling them."""
    if find_spec("tvm.tirx") is None:
        # Relay's TVM, which compiles its own kernels.
        return
    import tvm

    from runtime_ext.cpu import compiler

    build_kernel = compiler.build_kernel

    def build_quickly(spec: Any, key: str, target: Any, unit: Any) -> Any:
        quick = tvm.target.Target({"opt-level": 0, **target.export()})
        return build_kernel(spec, key, quick, unit)

    put(compiler, "build_kernel", build_quickly)


if __name__ == "__main__":
    from tvm_ios.__main__ import main

    shorten()
    if is_fast():
        compile_quickly()
        search_ranges_briefly()
    main()
