"""A functional graph as programs: one for each set of weights, and for each range of shapes."""
# pyright: basic, reportMissingImports=warning

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from tvm_ios.errors import UserError
from tvm_ios.torch_compile.compiled import Task, compile_task
from tvm_ios.torch_compile.exported import symbol_of
from tvm_ios.torch_compile.options import BackendOptions
from tvm_ios.torch_compile.program import TensorProgram, difference_from_torch
from tvm_ios.torch_compile.report import OURS, GraphRecord, sentence
from tvm_ios.torch_compile.weights import Snapshot

_LOGGER = logging.getLogger(__name__)
#: The most programs of a graph, of other weights or shapes; further ones are left to torch.
_MOST_PROGRAMS = 32
#: A weight that has changed so often is an input of further programs.
_CHANGES = 2


class NoProgram(Exception):
    """The graph has no program, for a reason that is a sentence."""


class NotThisCall(Exception):
    """A call that torch runs, although the graph has programs."""


class FunctionalGraph:
    """Runs a functional graph by programs, each of one set of weights and one range of shapes."""

    #: AOTAutograd gives all arguments as one list.
    _boxed_call = True

    def __init__(self, graph: fx.GraphModule, options: BackendOptions, record: GraphRecord) -> None:
        self._graph, self._options, self._record = graph, options, record
        self._placeholders = graph.graph.find_nodes(op="placeholder")
        self._weights = _weights_of(self._placeholders)
        self._symbols = _symbols_of(self._placeholders)
        results: Any = graph.graph.output_node().args[0]
        self._results: tuple[Any, ...] = tuple(results)
        self._computed = [
            node
            for node in dict.fromkeys(self._results)
            if isinstance(node, fx.Node)
            and node.op != "placeholder"
            and isinstance(node.meta.get("val"), torch.Tensor)
        ]
        self._programs: list[_Entry] = []
        self._changes = dict.fromkeys(self._weights, 0)
        self._seen: Snapshot | None = None
        self._lock = threading.Lock()

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Return the outputs; raise NoProgram or NotThisCall, with nothing changed."""
        sizes = {name: int(read(arguments)) for name, read in self._symbols.items()}
        entry = self._found(arguments, sizes)
        if entry is None:
            with self._lock:
                # Another thread may have compiled it.
                entry = self._found(arguments, sizes) or self._compiled(arguments, sizes)
        outputs = dict(zip(self._computed, entry.program(arguments), strict=True))
        arguments = list(arguments)
        return [self._result(result, outputs, arguments, sizes) for result in self._results]

    def _found(self, arguments: Sequence[Any], sizes: Mapping[str, int]) -> _Entry | None:
        return next((entry for entry in self._programs if entry.fits(arguments, sizes)), None)

    def _result(
        self, result: Any, outputs: Mapping[Any, Any], arguments: Sequence[Any], sizes: Any
    ) -> Any:
        if not isinstance(result, fx.Node):
            return result
        if result.op == "placeholder":
            return arguments[self._placeholders.index(result)]
        if result in outputs:
            return _strided_as(outputs[result], result.meta["val"])
        expression = result.meta["val"].node.expr
        return int(expression.subs({s: sizes[str(s)] for s in expression.free_symbols}))

    def _compiled(self, arguments: Sequence[Any], sizes: Mapping[str, int]) -> _Entry:
        """Return a new program for these arguments, compared with torch."""
        self._programs = [entry for entry in self._programs if not entry.is_gone]
        fixed = self._fixed_now(arguments)
        if len(self._programs) >= _MOST_PROGRAMS:
            self._record.reason = f"{_MOST_PROGRAMS} programs are the most of a graph"
            raise NotThisCall
        begin = time.perf_counter()
        try:
            entry = self._compile(arguments, sizes, fixed)
        except NoProgram:
            raise
        except UserError as error:
            raise NoProgram(str(error)) from error
        except Exception as error:
            _LOGGER.debug("a graph cannot be compiled", exc_info=True)
            raise NoProgram(
                f"compiling failed with an unexpected {type(error).__name__}: {sentence(error)}"
            ) from error
        finally:
            self._record.seconds += time.perf_counter() - begin
        self._record.where = OURS
        self._record.programs += 1
        self._programs.insert(0, entry)
        return entry

    def _fixed_now(self, arguments: Sequence[Any]) -> list[int]:
        """Return the places of weights that are constants of the next program.

        Programs whose weights have changed are dropped. Of weights that have just changed, which
        may change with every call, torch runs the first call.
        """
        stale = [e for e in self._programs if e.snapshot.is_of(e.given(arguments))]
        stale = [e for e in stale if not e.snapshot.holds(e.given(arguments))]
        for entry in stale:
            self._programs.remove(entry)
            for place in entry.snapshot.changed(entry.given(arguments)):
                self._changes[entry.fixed[place]] += 1
        fixed = [place for place in self._weights if self._changes[place] < _CHANGES]
        now = [arguments[place] for place in fixed]
        if any(tensor.is_inference() for tensor in now):
            raise NoProgram(
                "its weights were made in inference mode, in which torch does not count changes"
            )
        if stale:
            self._record.reason = "weights were changed after compiling"
            self._seen = Snapshot(now)
            raise NotThisCall
        if self._seen is not None and self._seen.is_of(now) and not self._seen.holds(now):
            for place in self._seen.changed(now):
                self._changes[fixed[place]] += 1
            self._seen = Snapshot(now)
            raise NotThisCall
        self._seen = None
        return fixed

    def _compile(
        self, arguments: Sequence[Any], sizes: Mapping[str, int], fixed: list[int]
    ) -> _Entry:
        if not self._computed:
            raise NoProgram("it computes no tensor")
        weights = {self._placeholders[place].name: arguments[place] for place in fixed}
        task = Task(self._graph, self._computed, weights, self._options)
        compiled = compile_task(task, sizes, arguments)
        places = {node.name: place for place, node in enumerate(self._placeholders)}
        program = TensorProgram(compiled.executable, places)
        how = difference_from_torch(
            compiled.executable,
            program(arguments),
            self._by_torch,
            arguments,
            self._options.precision,
        )
        if how:
            raise NoProgram(f"its program differs from torch's result {how}")
        self._record.cached += compiled.was_cached
        self._record.reason = compiled.reason
        bounds = [(name, r.least, r.most) for name, r in compiled.ranges.items()]
        return _Entry(program, Snapshot(list(weights.values())), fixed, bounds)

    def _by_torch(self, arguments: Sequence[Any]) -> list[Any]:
        with torch.no_grad():
            results = self._graph(*arguments)
        found = dict(zip(self._results, results, strict=True))
        return [found[node] for node in self._computed]


class _Entry:
    """A program with the weights and the sizes that it is for."""

    def __init__(
        self,
        program: TensorProgram,
        snapshot: Snapshot,
        fixed: list[int],
        bounds: list[tuple[str, int, int]],
    ) -> None:
        self.program, self.snapshot, self.fixed = program, snapshot, fixed
        self._bounds = bounds

    def given(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the arguments that are constants of the program."""
        return [arguments[place] for place in self.fixed]

    def fits(self, arguments: Sequence[Any], sizes: Mapping[str, int]) -> bool:
        """Return whether the program is for these arguments."""
        inside = all(least <= sizes[name] <= most for name, least, most in self._bounds)
        return inside and self.snapshot.holds(self.given(arguments))

    @property
    def is_gone(self) -> bool:
        """Whether no call can have its weights any more."""
        return self.snapshot.is_gone


def _weights_of(placeholders: Sequence[fx.Node]) -> list[int]:
    """Return the places of parameters and buffers that the graph does not change."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None:
        return []
    changed = {
        place for place, info in enumerate(metadata.input_info) if getattr(info, "mutates_data", 0)
    }
    return [
        place
        for place in metadata.static_input_indices
        if place not in changed and isinstance(placeholders[place].meta["val"], torch.Tensor)
    ]


def _symbols_of(placeholders: Sequence[fx.Node]) -> dict[str, Callable[[Sequence[Any]], int]]:
    """Return for each symbol a function of the arguments that reads its value."""
    symbols: dict[str, Callable[[Sequence[Any]], int]] = {}
    for place, node in enumerate(placeholders):
        value = node.meta["val"]
        if isinstance(value, torch.SymInt) and (symbol := symbol_of(value)) is not None:
            symbols[str(symbol)] = lambda arguments, place=place: arguments[place]
        for axis, extent in enumerate(getattr(value, "shape", ())):
            if (symbol := symbol_of(extent)) is not None:
                symbols.setdefault(
                    str(symbol),
                    lambda arguments, place=place, axis=axis: arguments[place].shape[axis],
                )
    return symbols


def _strided_as(tensor: Any, like: Any) -> Any:
    """Return a contiguous tensor in the order of axes in memory that another one has."""
    strides = [_hint(stride) for stride in like.stride()]
    shape = tensor.shape
    for axis, stride in enumerate(strides):
        if stride == 0 and shape[axis] > 1:
            tensor = tensor.narrow(axis, 0, 1).contiguous()
    order = sorted(range(tensor.dim()), key=lambda axis: -strides[axis])
    wide = [axis for axis in order if tensor.shape[axis] > 1]
    if wide != sorted(wide):
        empty = torch.empty([tensor.shape[axis] for axis in order], dtype=tensor.dtype)
        places = sorted(range(tensor.dim()), key=order.__getitem__)
        tensor = empty.permute(places).copy_(tensor)
    return tensor.expand(shape)


def _hint(extent: Any) -> int:
    return extent.node.hint if isinstance(extent, torch.SymInt) else extent
