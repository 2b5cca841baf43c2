"""Split a scheduled PrimFunc into phases that run any range of their tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from runtime_ext.kernels.open_shapes import extent_of_prim
from tvm_ios.shapes.extent import Symbol


@dataclass(frozen=True, slots=True)
class Phase:
    """One outer loop of a PrimFunc as a function of buffers and a tile range."""

    #: PrimFunc of the buffers named by ``arguments``, ``begin`` and ``end``.
    function: Any
    #: Extent of the loop.
    tiles: int
    #: Indices into the original parameters followed by the scratch buffers.
    arguments: tuple[int, ...]
    #: Names of the symbols whose values are parameters, between the buffers and the range.
    scalars: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Phases:
    """The phases of a PrimFunc, and (shape, dtype) of each scratch buffer between them."""

    phases: tuple[Phase, ...]
    scratch: tuple[tuple[tuple[int, ...], str], ...]


def split_phases(function: Any, symbols: Sequence[Symbol] = ()) -> Phases:
    """Split a PrimFunc in block form: each statement of its root becomes a phase.

    An outer parallel loop becomes the tile range, which runs serially; any other statement is a
    phase of one tile, and parallel loops inside of others are serial, too. A buffer that several
    phases use becomes a parameter; the others stay local, or register tiles would become memory.

    Variables in the shapes of buffers that have the names of ``symbols`` become parameters.
    """
    phases: list[Phase] = []
    known = {symbol.name: symbol for symbol in symbols}
    parts, scratch = split_root(function, symbols=known)
    scalars = _shape_variables(function, known)
    for part in parts:
        loop, begin, end, extent = _ranged(part.statement)
        tiles = extent_of_prim(extent, known)
        given = [*part.buffers, *scalars.values(), begin, end]
        body = tvm_ffi.structural_map(part.rooted(loop), (tirx.For, _serial))
        phase = tirx.PrimFunc(given, body).with_attr("tirx.noalias", True)
        phases.append(Phase(phase, tiles, part.arguments, tuple(scalars)))
    return Phases(tuple(phases), scratch)


def _serial(loop: Any) -> Any:
    """Return a loop that is not parallel: a tile runs in one lane, which TVM's threads know not."""
    if loop.kind != tirx.ForKind.PARALLEL:
        return loop
    serial = tirx.ForKind.SERIAL
    return tirx.For(loop.loop_var, loop.min, loop.extent, serial, loop.body, None, loop.annotations)


def _buffers(function: Any) -> list[Any]:
    """Return the parameters of a PrimFunc that are buffers; others are variables of shapes."""
    return [parameter for parameter in function.params if _is_buffer(parameter)]


def _is_buffer(parameter: Any) -> bool:
    return hasattr(parameter.ty, "shape")


def _shape_variables(function: Any, symbols: Mapping[str, Symbol]) -> dict[str, Any]:
    """Return the variables of symbols in the shapes of a PrimFunc's buffers, by name, in order."""
    extents = [extent for buffer in _buffers(function) for extent in buffer.ty.shape]
    given = [p for p in function.params if not _is_buffer(p)]
    variables = {v.name: v for part in (*extents, *given) for v in _variables(part)}
    return {name: variables[name] for name in symbols if name in variables}


@dataclass(frozen=True)
class RootPart:
    """A statement at the root of a PrimFunc in block form.

    ``buffers`` are the parameters and shared buffers that it uses, ``arguments`` their indices
    (see :class:`Phase`), ``root`` the root block, ``local`` its buffers that only this statement
    uses.
    """

    statement: Any
    buffers: tuple[Any, ...]
    arguments: tuple[int, ...]
    root: Any
    local: tuple[Any, ...]

    def rooted(self, body: Any) -> Any:
        """Return the root with another body and this statement's buffers alone."""
        old = self.root.block
        block = type(old)(
            old.iter_vars,
            old.reads,
            old.writes,
            old.name_hint,
            body,
            None,
            self.local,
            old.match_buffers,
            old.annotations,
        )
        return type(self.root)(self.root.iter_values, self.root.predicate, block)


def split_root(
    function: Any, *, device: bool = False, symbols: Mapping[str, Symbol] | None = None
) -> tuple[list[RootPart], tuple[tuple[tuple[int, ...], str], ...]]:
    """Return the statements of a PrimFunc's root, and (shape, dtype) of the buffers they share.

    On a ``device`` all buffers in its global memory count as shared. Shapes are extents of
    ``symbols``, by name.
    """
    root = function.body
    body = root.block.body
    statements = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    variables_by_statement = [_variables(s) for s in statements]
    allocated = list(root.block.alloc_buffers)
    shared = [
        b
        for b in allocated
        if sum(_holds(u, b) for u in variables_by_statement) > 1
        or (device and b.scope() == "global")
    ]
    buffers = [*_buffers(function), *shared]
    parts: list[RootPart] = []
    for statement, variables in zip(statements, variables_by_statement, strict=True):
        arguments = tuple(i for i, b in enumerate(buffers) if _holds(variables, b))
        local = tuple(b for b in allocated if _holds(variables, b) and not _holds(shared, b))
        parts.append(
            RootPart(statement, tuple(buffers[i] for i in arguments), arguments, root, local)
        )
    known = symbols or {}
    scratch = tuple(
        (tuple(extent_of_prim(e, known) for e in b.ty.shape), str(b.ty.dtype)) for b in shared
    )
    return parts, scratch


def _ranged(outer: Any) -> tuple[Any, Any, Any, Any]:
    """Return the statement as a loop over tiles ``[begin, end)``, and the number of tiles."""
    parallel = isinstance(outer, tirx.For) and outer.kind == tirx.ForKind.PARALLEL
    statement: Any = outer
    dtype = str(statement.loop_var.ty.dtype) if parallel else "int32"
    begin, end = tirx.Var("begin", dtype), tirx.Var("end", dtype)
    if not parallel:
        tile = tirx.Var("tile", "int32")
        loop = tirx.For(tile, begin, end - begin, tirx.ForKind.SERIAL, statement)
        return loop, begin, end, 1
    loop = tirx.For(
        statement.loop_var,
        begin + statement.min,
        end - begin,
        tirx.ForKind.SERIAL,
        statement.body,
        None,
        statement.annotations,
    )
    return loop, begin, end, statement.extent


def _variables(statement: Any) -> list[Any]:
    """Return every variable (buffers are variables) that a statement mentions."""
    variables: list[Any] = []
    tvm_ffi.structural_walk(statement, (tvm.ir.Var, variables.append))
    return variables


def _holds(variables: Sequence[Any], variable: Any) -> bool:
    return any(v.same_as(variable) for v in variables)
