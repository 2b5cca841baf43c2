"""Measuring that ends soon, where who is faster is not asked: ``shorten``.

Whole contests spend seconds on waiting until no thread is busy, and beside other tests no sample
is undisturbed, however often it is taken. As a program this runs ``tvm-ios``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from runtime_ext.cpu import device as cpu_device
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


if __name__ == "__main__":
    from tvm_ios.__main__ import main

    shorten()
    main()
