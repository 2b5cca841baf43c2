"""What TVM's libraries were built with, asked for once."""

from __future__ import annotations

from functools import cache

from tvm.relay.backend import te_compiler


@cache
def keep_build_information() -> None:
    """Have TVM remember it.

    TVM 0.17 compiles it anew, in milliseconds, for every shape that ``relay.build`` lowers: a third
    of the time.
    """
    te_compiler.libinfo = cache(te_compiler.libinfo)
