"""A decorator for passes whose ``repr`` shows their parameters."""

from __future__ import annotations

import inspect
import reprlib
from typing import Any

import tvm

_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = 60


def module_pass(cls: Any) -> Any:
    """Make a class a module pass of TVM, with a ``repr`` that shows the class's parameters."""
    parameters = inspect.signature(cls)
    decorated: Any = tvm.transform.module_pass(cls, opt_level=0, name=cls.__name__)
    make = decorated.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        bound = parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        given = {name: value for name, value in bound.arguments.items() if value is not None}
        shown = ", ".join(f"{name}={_BRIEF.repr(value)}" for name, value in given.items())
        self._shown = f"{cls.__name__}({shown})"

    decorated.__init__ = __init__
    decorated.__repr__ = decorated.__str__ = lambda self: self._shown
    return decorated
