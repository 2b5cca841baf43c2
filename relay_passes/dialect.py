"""The interface that Relax and Relay implement for the passes, and the choice between the two."""

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
    from tvm_ios.shapes.input_shapes import Shapes

#: Names, shapes and types of parameters and results, which are numbered: ``result 0``.
Interface = list[tuple[str, tuple[int, ...], str]]


class DialectError(UserError):
    """A module cannot be scheduled; the message is one sentence that names the obstacle."""


def require_elements(kind: str, tensors: Sequence[Tensor]) -> None:
    """Raise DialectError if an operator of this kind reads or makes a tensor without elements.

    ``tensors`` are the operator's inputs and then its results, by the last of which the error
    names the operator.
    """
    for tensor in tensors:
        if 0 in tensor.shape:
            raise DialectError(
                f"the operator {kind} that makes {tensors[-1].name!r} reads or makes a tensor of "
                f"shape {list(tensor.shape)}, which has no elements: export the model without it"
            )


@dataclass(frozen=True)
class Dialect:
    """The operations that the passes need of one of TVM's graph IRs; all other code is shared."""

    #: ``"relax"`` or ``"relay"``: also the package in :mod:`relay_passes`.
    name: str
    #: Rewrite ``main`` of a module into the form that ``extract`` reads: inference only, constants
    #: folded.
    canonicalise: Callable[[tvm.IRModule], tvm.IRModule]
    #: Read a canonical module, given a name for it; return its graph of operators (``.graph``)
    #: together with the expressions that they were read from.
    extract: Callable[[tvm.IRModule, str], Any]
    #: Return an outliner for an extraction and its graph of units. It builds the functions of units
    #: (``.unit``) and of merged units (``.merged``).
    outliner: Callable[[Any, OpGraph], Any]
    #: Return a copy of an outliner that writes units in the layouts of the options' target.
    for_target: Callable[[Any, SearchOptions], Any]
    #: Rewrite ``main`` so that it calls an outliner's units in the order of a schedule.
    outline: Callable[[tvm.IRModule, Any, Schedule], tvm.IRModule]
    #: Return the names, shapes and types of the parameters and results of ``main``, in order.
    interface: Callable[[tvm.IRModule], Interface]
    #: Replace the body of ``main`` of a canonical module, given its extraction, by what a callback
    #: writes for the same parameters. Return the module, and a function that maps an extraction of
    #: it to the origins of its operators.
    rewrite_main: Callable[[tvm.IRModule, Any, Body], tuple[tvm.IRModule, OriginsOf]]
    #: Return a copy of a module with other functions.
    with_functions: Callable[[tvm.IRModule, dict[Any, Any]], tvm.IRModule]
    #: Convert a string to the type that this TVM takes as a module attribute.
    attribute: Callable[[str], Any]
    #: Convert a long string likewise, so that the printed module does not show it.
    unprinted: Callable[[str], Any]
    #: Return the text of a module, without the data of its constants.
    text: Callable[[tvm.IRModule], str]
    #: The suffix of a file of this text.
    text_suffix: str
    #: Convert a simplified ONNX model to a canonical module, given the folder for the module before
    #: it is canonicalised, or None.
    import_onnx: Callable[[onnx.ModelProto, Path | None], tvm.IRModule]
    #: Canonicalise a module that was read from a file, given the shapes of inputs that the user
    #: fixed; the path is for error messages.
    import_saved: Callable[[tvm.IRModule, Path, Shapes], tvm.IRModule]
    #: Return the units of a prepared module for the target of some options, a
    #: :class:`relay_passes.measured_module.TargetUnits`.
    target_units: Callable[[Any, SearchOptions], Any]
    #: Compile a module for a CPU with TVM's own pipeline, given options and the path to write.
    compile_tvm_build: Callable[[tvm.IRModule, SearchOptions, Path], None]
    #: Return the operators of a canonical module that can be reordered, a ``Reordering``.
    operators_of: Callable[[tvm.IRModule], Reordering]
    #: Return the calls in ``main`` of a module, each after those whose results it reads.
    calls_of: Callable[[tvm.IRModule], list[Any]]
    #: Read the graph of units and the stages of a scheduled module.
    stages_of: Callable[[tvm.IRModule], tuple[OpGraph, tuple[Stage, ...]]]
    #: Return a scheduled module with its stages in another order.
    with_stages: Callable[[tvm.IRModule, Sequence[int]], tvm.IRModule]
    #: Whether schedules can choose units' rKernels and place their tiles.
    places_tiles: bool


def dialect_of(module: tvm.IRModule) -> Dialect:
    """Return the dialect of a module's functions.

    Raise DialectError if it mixes Relax and Relay, or the installed TVM does not fit the dialect.
    """
    kinds = {type(function).__module__ for function in module.functions.values()}
    names = {n for n in ("relax", "relay") if any(kind.startswith(f"tvm.{n}") for kind in kinds)}
    if len(names) > 1:
        raise DialectError("the module mixes Relax and Relay functions: keep those of one")
    return named_dialect(names.pop() if names else _default())


def named_dialect(name: str) -> Dialect:
    """Return the dialect of this name; raise DialectError if the installed TVM does not fit it."""
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
    """Return the dialect for a module that has no functions, whose error then names ``main``."""
    return "relay" if importlib.util.find_spec("tvm.relay") else "relax"
