"""Cache the settings that TVM's libraries were built with."""

from __future__ import annotations

from functools import cache

from tvm.relay.backend import te_compiler


@cache
def keep_build_information() -> None:
    """Make TVM cache its build settings.

    TVM 0.17 collects them again, in milliseconds, for every shape that ``relay.build`` lowers: a
    third of the time.
    """
    te_compiler.libinfo = cache(te_compiler.libinfo)
