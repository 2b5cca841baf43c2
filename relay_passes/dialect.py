"""What a dialect of TVM's IR must offer, and which one a module is written in."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm

from tvm_ios.errors import UserError
from tvm_ios.graph import OpGraph
from tvm_ios.schedule import Schedule


class DialectError(UserError):
    """A module that cannot be scheduled, with one sentence that names what stands in the way."""


@dataclass(frozen=True)
class Dialect:
    """What differs between the IRs that TVM has had; everything else is shared.

    Attributes
    ----------
    name
        ``"relax"`` or ``"relay"``: also the package in :mod:`relay_passes`.
    canonicalise
        The module with ``main`` ready to be read: inference only, constants folded.
    extract
        Of a canonical module and a name its graph of operators (``.graph``) and the way back.
    outliner
        Of an extraction and its graph of units: makes the functions of units (``.unit``) and of
        merged units (``.merged``).
    outline
        The module, given an outliner and a schedule, with ``main`` calling units in its order.
    attribute
        A string as this TVM wants it for an attribute of a module.
    measured_search
        The class that searches with measured costs; importing it is for those who want it.
    """

    name: str
    canonicalise: Callable[[tvm.IRModule], tvm.IRModule]
    extract: Callable[[tvm.IRModule, str], Any]
    outliner: Callable[[Any, OpGraph], Any]
    outline: Callable[[tvm.IRModule, Any, Schedule], tvm.IRModule]
    attribute: Callable[[str], Any]
    measured_search: Callable[[], Any]


def dialect_of(module: tvm.IRModule) -> Dialect:
    """The dialect of a module's functions.

    Raises
    ------
    DialectError
        If functions of Relax and Relay are mixed, or the TVM that is installed is not one that
        this dialect's passes are written for.
    """
    kinds = {type(function).__module__ for function in module.functions.values()}
    names = {n for n in ("relax", "relay") if any(kind.startswith(f"tvm.{n}") for kind in kinds)}
    if len(names) > 1:
        raise DialectError("the module mixes Relax and Relay functions: keep those of one")
    name = names.pop() if names else _default()
    try:
        return importlib.import_module(f"relay_passes.{name}.dialect").DIALECT
    except ImportError as error:
        wanted = {"relax": "apache-tvm 0.27", "relay": "TVM 0.11 to 0.19"}[name]
        raise DialectError(
            f"the {name.capitalize()} passes are written for {wanted}, and this is TVM "
            f"{tvm.__version__}: install that ({error})"
        ) from error


def _default() -> str:
    """What a module without such functions is taken for, so that its error names ``main``."""
    return "relay" if importlib.util.find_spec("tvm.relay") else "relax"
