"""The backend: a graph of TorchDynamo to a function that runs it by our programs, or else by torch.

AOTAutograd makes a graph functional, and takes care of what a program does not know: inputs that
are changed, outputs that are views of inputs, and tensors that are given twice. Compiling waits for
the first call, which has the weights and values to compare with torch. Nothing is changed before a
program has run, so that torch can run the whole graph if there is no program.
"""
# pyright: basic, reportMissingImports=warning

from __future__ import annotations

import logging
import re
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

from tvm_ios.errors import UserError
from tvm_ios.torch_compile.compiled import Task, compile_task
from tvm_ios.torch_compile.exported import composite_operators_kept, symbol_of
from tvm_ios.torch_compile.options import BackendOptions, read_options
from tvm_ios.torch_compile.program import TensorProgram, difference_from_torch
from tvm_ios.torch_compile.report import OURS, GraphRecord, forget, new_record
from tvm_ios.torch_compile.weights import Snapshot

_LOGGER = logging.getLogger(__name__)
#: The most programs of a graph, of other weights or shapes; further ones are left to torch.
_MOST_PROGRAMS = 32
#: A weight that has changed so often is an input of further programs.
_CHANGES = 2
_TRAINING = (
    "tensors require gradients: the graph is run by {where}, and by tvm_ios under torch.no_grad() "
    "or torch.inference_mode()"
)


def backend(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Return a function that runs a graph; the entry point of ``torch_dynamo_backends``.

    Raise UserError if the options are wrong.
    """
    chosen = read_options(mode, options)
    calls = [node for node in graph.graph.nodes if node.op.startswith("call_")]
    record = new_record(_name_of(calls), len(calls))
    fallback = _Fallback(graph, example_inputs, chosen, record)
    if torch.is_grad_enabled() and any(
        isinstance(value, torch.Tensor) and value.requires_grad for value in example_inputs
    ):
        fallback.take(_TRAINING.format(where=chosen.fallback))
        _warn_of_training(record.reason)
        return fallback
    return _with_aot(graph, example_inputs, chosen, record, fallback)


def _with_aot(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: BackendOptions,
    record: GraphRecord,
    fallback: _Fallback,
) -> Callable[..., Any]:
    from torch._dynamo.backends.common import aot_autograd

    begin = time.perf_counter()

    def compiler(functional: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        return _Functional(functional, options, record)

    try:
        with composite_operators_kept():
            ours = aot_autograd(fw_compiler=compiler)(graph, example_inputs)
    except torch._dynamo.exc.TorchDynamoException:
        # Dynamo's own way to begin anew.
        forget(record)
        raise
    except Exception as error:
        _LOGGER.debug("AOTAutograd refuses a graph", exc_info=True)
        fallback.take(f"AOTAutograd refuses the graph: {_sentence(error)}")
        return fallback
    finally:
        record.seconds += time.perf_counter() - begin

    def call(*arguments: Any) -> Any:
        if record.where in ("", OURS):
            try:
                outputs = ours(*arguments)
            except _NotThisCall:
                pass
            except _NoProgram as error:
                fallback.take(str(error))
            else:
                record.calls += 1
                return outputs
        return fallback(*arguments)

    return call


class _NoProgram(Exception):
    """The graph has no program, for a reason that is a sentence."""


class _NotThisCall(Exception):
    """A call that torch runs, although the graph has programs."""


class _Fallback:
    """Runs a graph by torch: as it is, or compiled by Inductor."""

    def __init__(
        self,
        graph: fx.GraphModule,
        example_inputs: Sequence[Any],
        options: BackendOptions,
        record: GraphRecord,
    ) -> None:
        self._graph, self._examples = graph, example_inputs
        self._options, self._record = options, record
        self._run: Callable[..., Any] | None = None

    def take(self, reason: str) -> None:
        """Run the graph so from now on."""
        self._record.where, self._record.reason = self._options.fallback, reason
        _LOGGER.info("%s is run by %s: %s", self._record.name, self._record.where, reason)

    def __call__(self, *arguments: Any) -> Any:
        self._record.calls += 1
        self._record.fallen_back += 1
        if self._run is None:
            self._run = self._made()
        return self._run(*arguments)

    def _made(self) -> Callable[..., Any]:
        if self._options.fallback == "eager":
            return self._graph.forward
        from torch._inductor.compile_fx import compile_fx

        begin = time.perf_counter()
        try:
            return compile_fx(self._graph, list(self._examples))
        finally:
            self._record.seconds += time.perf_counter() - begin


class _Functional:
    """Runs a functional graph by programs, each of one set of weights and one range of shapes."""

    #: AOTAutograd gives all arguments as one list.
    _boxed_call = True

    def __init__(
        self, graph: fx.GraphModule, options: BackendOptions, record: GraphRecord
    ) -> None:
        self._graph, self._options, self._record = graph, options, record
        self._placeholders = graph.graph.find_nodes(op="placeholder")
        self._weights = _weights_of(self._placeholders)
        self._symbols = _symbols_of(self._placeholders)
        (results,) = graph.graph.output_node().args
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
        """Return the outputs; raise _NoProgram or _NotThisCall, with nothing changed."""
        sizes = {name: int(read(arguments)) for name, read in self._symbols.items()}
        entry = next((e for e in self._programs if e.fits(arguments, sizes)), None)
        if entry is None:
            with self._lock:
                entry = self._compiled(arguments, sizes)
        outputs = dict(zip(self._computed, entry.program(arguments), strict=True))
        arguments = list(arguments)
        return [self._result(result, outputs, arguments, sizes) for result in self._results]

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
            raise _NotThisCall
        begin = time.perf_counter()
        try:
            entry = self._compile(arguments, sizes, fixed)
        except UserError as error:
            raise _NoProgram(str(error)) from error
        except Exception as error:
            _LOGGER.debug("a graph cannot be compiled", exc_info=True)
            raise _NoProgram(
                f"compiling failed with an unexpected {type(error).__name__}: {_sentence(error)}"
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
            raise _NoProgram(
                "its weights were made in inference mode, in which torch does not count changes"
            )
        if stale:
            self._record.reason = "weights were changed after compiling"
            self._seen = Snapshot(now)
            raise _NotThisCall
        if self._seen is not None and self._seen.is_of(now) and not self._seen.holds(now):
            for place in self._seen.changed(now):
                self._changes[fixed[place]] += 1
            self._seen = Snapshot(now)
            raise _NotThisCall
        self._seen = None
        return fixed

    def _compile(
        self, arguments: Sequence[Any], sizes: Mapping[str, int], fixed: list[int]
    ) -> _Entry:
        if not self._computed:
            raise _NoProgram("it computes no tensor")
        weights = {self._placeholders[place].name: arguments[place] for place in fixed}
        task = Task(self._graph, self._computed, weights, self._options)
        compiled = compile_task(task, sizes)
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
            raise _NoProgram(f"its program differs from torch's result {how}")
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
    order = sorted(range(tensor.dim()), key=lambda axis: -strides[axis])
    wide = [axis for axis in order if tensor.shape[axis] > 1]
    if wide == sorted(wide) or 0 in strides:
        return tensor
    empty = torch.empty([tensor.shape[axis] for axis in order], dtype=tensor.dtype)
    places = sorted(range(tensor.dim()), key=order.__getitem__)
    return empty.permute(places).copy_(tensor)


def _hint(extent: Any) -> int:
    return extent.node.hint if isinstance(extent, torch.SymInt) else extent


def _name_of(calls: Sequence[fx.Node]) -> str:
    """Return the place in the code where a graph begins."""
    for node in calls:
        if found := re.search(r'File "(.*)", line (\d+), in (\w+)', node.stack_trace or ""):
            return f"{found[3]} ({Path(found[1]).name}:{found[2]})"
    return "graph"


def _sentence(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:300]


_warned = threading.Event()


def _warn_of_training(reason: str) -> None:
    if not _warned.is_set():
        _warned.set()
        warnings.warn(f"torch.compile with the backend tvm_ios: {reason}", stacklevel=2)
