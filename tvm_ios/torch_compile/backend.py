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

from tvm_ios.torch_compile.exported import composite_operators_kept
from tvm_ios.torch_compile.functional_graph import FunctionalGraph, NoProgram, NotThisCall
from tvm_ios.torch_compile.options import BackendOptions, read_options
from tvm_ios.torch_compile.report import OURS, GraphRecord, forget, new_record, sentence

_LOGGER = logging.getLogger(__name__)
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
    fallback = _Fallback(graph, chosen, record)
    if torch.is_grad_enabled() and any(
        isinstance(value, torch.Tensor) and value.requires_grad for value in example_inputs
    ):
        reason = _TRAINING.format(where=chosen.fallback)
        _warn_of_training(reason)
        return fallback.take(reason, example_inputs)
    return _with_aot(graph, example_inputs, chosen, record, fallback)


def _with_aot(
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    options: BackendOptions,
    record: GraphRecord,
    fallback: _Fallback,
) -> Callable[..., Any]:
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.exc import TorchDynamoException

    begin = time.perf_counter()

    def compiler(functional: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        return FunctionalGraph(functional, options, record)

    try:
        with composite_operators_kept():
            ours = aot_autograd(fw_compiler=compiler)(graph, example_inputs)
    except TorchDynamoException:
        # Dynamo's own way to begin anew.
        forget(record)
        raise
    except Exception as error:
        _LOGGER.debug("AOTAutograd refuses a graph", exc_info=True)
        return fallback.take(f"AOTAutograd refuses the graph: {sentence(error)}", example_inputs)
    finally:
        record.seconds += time.perf_counter() - begin

    def call(*arguments: Any) -> Any:
        if record.where in ("", OURS):
            try:
                outputs = ours(*arguments)
            except NotThisCall:
                record.calls += 1
                record.fallen_back += 1
                return graph.forward(*arguments)
            except NoProgram as error:
                fallback.take(str(error))
            else:
                record.calls += 1
                return outputs
        return fallback(*arguments)

    return call


class _Fallback:
    """Runs a graph by torch: as it is, or compiled by Inductor."""

    def __init__(self, graph: fx.GraphModule, options: BackendOptions, record: GraphRecord) -> None:
        self._graph, self._options, self._record = graph, options, record
        self._run: Callable[..., Any] | None = None

    def take(self, reason: str, example_inputs: Sequence[Any] | None = None) -> _Fallback:
        """Run the graph so from now on; return this object.

        With inputs it is compiled at once, while dynamo takes notes of what that assumes.
        """
        self._record.where, self._record.reason = self._options.fallback, reason
        _LOGGER.info("%s is run by %s: %s", self._record.name, self._record.where, reason)
        if example_inputs is not None:
            self._run = self._made(example_inputs)
        return self

    def __call__(self, *arguments: Any) -> Any:
        self._record.calls += 1
        self._record.fallen_back += 1
        if self._run is None:
            placeholders = self._graph.graph.find_nodes(op="placeholder")
            self._run = self._made([node.meta["example_value"] for node in placeholders])
        return self._run(*arguments)

    def _made(self, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        if self._options.fallback == "eager":
            return self._graph.forward
        from torch._inductor import compile_fx

        inductor: Any = compile_fx.compile_fx
        begin = time.perf_counter()
        try:
            return inductor(self._graph, list(example_inputs))
        finally:
            self._record.seconds += time.perf_counter() - begin


def _name_of(calls: Sequence[fx.Node]) -> str:
    """Return the place in the code where a graph begins."""
    for node in calls:
        if found := re.search(r'File "(.*)", line (\d+), in (\w+)', node.stack_trace or ""):
            return f"{found[3]} ({Path(found[1]).name}:{found[2]})"
    return "graph"


_warned = threading.Event()


def _warn_of_training(reason: str) -> None:
    if not _warned.is_set():
        _warned.set()
        warnings.warn(f"torch.compile with the backend tvm_ios: {reason}", stacklevel=2)
