"""What a dialect of TVM's IR must offer, and which one a module is written in."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from relay_passes.reordering import Reordering
from tvm_ios.errors import UserError
from tvm_ios.graph.elements import Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage

if TYPE_CHECKING:
    import tvm

    from relay_passes.emitter import Body, OriginsOf
    from relay_passes.search_options import SearchOptions
    from tvm_ios.graph.input_shapes import Shapes

#: Names, shapes and types of parameters and results, which are numbered: ``result 0``.
Interface = list[tuple[str, tuple[int, ...], str]]


class DialectError(UserError):
    """A module that cannot be scheduled, with one sentence that names what stands in the way."""


def require_elements(kind: str, tensors: Sequence[Tensor]) -> None:
    """Refuse an operator that reads or makes a tensor without elements: there is no kernel of it.

    Parameters
    ----------
    kind, tensors
        Of the operator; its results are the last ones.

    Raises
    ------
    DialectError
        Naming the operator.
    """
    for tensor in tensors:
        if 0 in tensor.shape:
            raise DialectError(
                f"the operator {kind} that makes {tensors[-1].name!r} reads or makes a tensor of "
                f"shape {list(tensor.shape)}, which has no elements: export the model without it"
            )


@dataclass(frozen=True)
class Dialect:
    """What differs between the IRs that TVM has had; everything else is shared.

    Attributes
    ----------
    name
        ``"relax"`` or ``"relay"``: also the package in :mod:`relay_passes`.
    canonicalise
        Makes ``main`` of a module ready to be read: inference only, constants folded.
    extract
        Reads a canonical module, under a name: its graph of operators (``.graph``), and the way
        back.
    outliner
        Makes an outliner of an extraction and its graph of units, which makes the functions of
        units (``.unit``) and of merged units (``.merged``).
    for_target
        Makes of an outliner and options one that outlines units as the kernels of the target want
        them.
    outline
        Makes ``main`` of a module call an outliner's units in the order of a schedule.
    interface
        Tells the names, shapes and types of what ``main`` of a module is given and returns, in
        order.
    rewrite_main
        Replaces ``main`` of a canonical module, given its extraction, by what a body writes with
        the same parameters; returns the module, and where its operators come from.
    with_functions
        Copies a module, with other functions.
    attribute
        Makes a string what this TVM wants as an attribute of a module.
    unprinted
        The same of a long text, which the text of a module does not show.
    import_onnx
        Makes a canonical module of a simplified ONNX model.
    import_saved
        Makes a module that was read from a file canonical, given the shapes of inputs that the user
        fixed; the path is for errors.
    target_units
        Makes the units of a prepared module for the target of some options, a
        :class:`relay_passes.measured_module.TargetUnits`.
    compile_tvm_build
        Writes TVM's own build of a module for a CPU, given options and a path.
    operators_of
        Tells what of a canonical module can be put into another order.
    calls_of
        Gives the calls in ``main`` of a module, each after those whose results it reads.
    stages_of
        Reads the graph of units of a scheduled module, and its stages.
    with_stages
        Puts the stages of a scheduled module into another order.
    places_tiles
        Whether schedules can choose units' rKernels and place their tiles.
    """

    name: str
    canonicalise: Callable[[tvm.IRModule], tvm.IRModule]
    extract: Callable[[tvm.IRModule, str], Any]
    outliner: Callable[[Any, OpGraph], Any]
    for_target: Callable[[Any, SearchOptions], Any]
    outline: Callable[[tvm.IRModule, Any, Schedule], tvm.IRModule]
    interface: Callable[[tvm.IRModule], Interface]
    rewrite_main: Callable[[tvm.IRModule, Any, Body], tuple[tvm.IRModule, OriginsOf]]
    with_functions: Callable[[tvm.IRModule, dict[Any, Any]], tvm.IRModule]
    attribute: Callable[[str], Any]
    unprinted: Callable[[str], Any]
    import_onnx: Callable[[onnx.ModelProto], tvm.IRModule]
    import_saved: Callable[[tvm.IRModule, Path, Shapes], tvm.IRModule]
    target_units: Callable[[Any, SearchOptions], Any]
    compile_tvm_build: Callable[[tvm.IRModule, SearchOptions, Path], None]
    operators_of: Callable[[tvm.IRModule], Reordering]
    calls_of: Callable[[tvm.IRModule], list[Any]]
    stages_of: Callable[[tvm.IRModule], tuple[OpGraph, tuple[Stage, ...]]]
    with_stages: Callable[[tvm.IRModule, Sequence[int]], tvm.IRModule]
    places_tiles: bool


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
    return named_dialect(names.pop() if names else _default())


def named_dialect(name: str) -> Dialect:
    """A dialect by its name.

    Raises
    ------
    DialectError
        If the TVM that is installed is not one that this dialect's passes are written for.
    """
    try:
        return importlib.import_module(f"relay_passes.{name}.dialect").DIALECT
    except ImportError as error:
        import tvm

        required, other = {
            "relax": ("apache-tvm 0.27", "relay"),
            "relay": ("TVM 0.11 to 0.19", "relax"),
        }[name]
        raise DialectError(
            f"the {name.capitalize()} passes are written for {required}, and this is TVM "
            f"{tvm.__version__}: bring that TVM, or choose the dialect {other}"
        ) from error


def _default() -> str:
    """What a module without such functions is taken for, so that its error names ``main``."""
    return "relay" if importlib.util.find_spec("tvm.relay") else "relax"
