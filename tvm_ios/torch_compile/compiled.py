"""Compile graphs to executables, which are kept in a cache by content and shared by processes."""
# pyright: basic, reportMissingImports=warning

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import shutil
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from tvm_ios.errors import ModelError, UserError
from tvm_ios.models.source import ModelSource
from tvm_ios.onnx.file import LARGEST
from tvm_ios.shapes.ranges import Range
from tvm_ios.torch_compile.exported import at_sizes, onnx_of_graph, symbol_of
from tvm_ios.torch_compile.options import BackendOptions
from tvm_ios.torch_compile.weights import content_digest

if TYPE_CHECKING:
    from runtime_ext.execution.executable import Executable

_LOGGER = logging.getLogger(__name__)
#: Increase it whenever equal graphs become other executables.
_VERSION = 2
#: A range goes to at least this number.
_AT_LEAST = 64


@dataclass(frozen=True)
class Task:
    """A graph to compile.

    Attributes
    ----------
    graph
        A functional graph of ATen operators.
    outputs
        The values to compute, of its nodes.
    weights
        Inputs that are constants, by name.
    options
        The options of the backend.
    """

    graph: fx.GraphModule
    outputs: Sequence[fx.Node]
    weights: Mapping[str, Any]
    options: BackendOptions

    @property
    def inputs(self) -> list[fx.Node]:
        """The tensors that each call gives."""
        return [
            node
            for node in self.graph.graph.find_nodes(op="placeholder")
            if isinstance(node.meta["val"], torch.Tensor) and node.name not in self.weights
        ]

    def ranges(self, sizes: Mapping[str, int]) -> dict[str, Range]:
        """Return the range of each symbol, around its present value."""
        return {
            str(symbol): _range_of(symbol, extent, sizes[str(symbol)])
            for node in self.inputs
            for extent in node.meta["val"].shape
            if (symbol := symbol_of(extent)) is not None
        }


@dataclass(frozen=True)
class Compiled:
    """An executable of a graph, for the ranges of its symbols.

    ``was_cached`` says that it was in the cache, and ``reason`` why it has no longer ranges.
    """

    executable: Executable
    was_cached: bool
    ranges: Mapping[str, Range]
    reason: str = ""


def compile_task(task: Task, sizes: Mapping[str, int], arguments: Sequence[Any]) -> Compiled:
    """Compile a graph for ranges around the sizes of some arguments, or else for these alone.

    ``sizes`` has the value of each symbol. Raise UserError if the graph cannot be compiled.
    """
    if not sizes:
        return Compiled(*_executable(task, {}), {})
    try:
        ranges = task.ranges(sizes)
        return Compiled(*_executable(task, ranges), ranges)
    except UserError as error:
        with _plainly():
            graph = at_sizes(task.graph, arguments)
        named = {node.name: node for node in graph.graph.nodes}
        outputs = [named[output.name] for output in task.outputs]
        alone = replace(task, graph=graph, outputs=outputs)
        ranges = {name: Range(size, size) for name, size in sizes.items()}
        return Compiled(*_executable(alone, {}), ranges, f"one shape a program: {error}")


def _executable(task: Task, ranges: Mapping[str, Range]) -> tuple[Executable, bool]:
    """Return the executable of a task, and whether the cache had it."""
    from runtime_ext.native_errors import ExecutableError

    folder = task.options.cache_folder / "torch" / _key(task, ranges)
    was_cached = folder.exists()
    if was_cached:
        try:
            return _loaded(folder), True
        except ExecutableError as error:
            _LOGGER.info("%s is compiled again: %s", folder, error)
            shutil.rmtree(folder, ignore_errors=True)
    if (size := sum(weight.nbytes for weight in task.weights.values())) > LARGEST:
        raise ModelError(f"the graph has {size:,} bytes of weights, too many for one ONNX model")
    with _plainly():
        proto = onnx_of_graph(task.graph, task.outputs, task.weights)
        _optimize(task, ModelSource("graph.onnx", written=proto), ranges, folder)
    return _loaded(folder), False


def _loaded(folder: Path) -> Executable:
    from runtime_ext.execution.executable import Executable, load

    executable = load(folder)
    assert isinstance(executable, Executable)
    return executable


def _optimize(task: Task, model: ModelSource, ranges: Mapping[str, Range], folder: Path) -> None:
    from runtime_ext.machine.this_machine import announce_lanes

    announce_lanes(task.options.threads)
    options = task.options.for_optimize()
    if not ranges:
        from relay_passes.load import load_model
        from tvm_ios.api.optimizer import optimize

        loaded = load_model(model, options=options.search)
        if loaded.tail is not None:
            # Refuse before kernels are compiled.
            raise ModelError(f"the graph cannot run as one program: {loaded.tail.sentence}")
        optimize(loaded, folder, options)
        return
    from tvm_ios.api.ranges import optimize_range

    shapes = {
        node.name: tuple(_extent(extent, ranges) for extent in node.meta["val"].shape)
        for node in task.inputs
    }
    opened = {
        name: shape
        for name, shape in shapes.items()
        if any(isinstance(extent, Range) for extent in shape)
    }
    policies = None if options.policies is None else ()
    optimize_range(model, opened, folder, replace(options, policies=policies))


def _extent(extent: Any, ranges: Mapping[str, Range]) -> int | Range:
    if not isinstance(extent, torch.SymInt):
        return int(extent)
    number = extent.node.maybe_as_int()
    if number is not None:
        return number
    symbol = symbol_of(extent)
    if symbol is None:
        raise ModelError(f"the graph has an input of extent {extent}, which others determine")
    return ranges[str(symbol)]


def _range_of(symbol: Any, extent: Any, size: int) -> Range:
    allowed = extent.node.shape_env.var_to_range[symbol]
    # A power of two, as the limits of models are, with a quarter more room.
    most = max(1 << (size + size // 4 - 1).bit_length(), _AT_LEAST)
    # The ends may be infinite, which is no number.
    least = int(allowed.lower) if allowed.lower > 1 else 1
    return Range(least, int(allowed.upper) if allowed.upper < most else most)


def _key(task: Task, ranges: Mapping[str, Range]) -> str:
    """Return the name of a compiled graph: a hash of all that it depends on."""
    from runtime_ext.kernels.artefact import SCHEDULE_VERSION
    from runtime_ext.machine.this_machine import device_name
    from tvm_ios.distributions import installed_versions

    held = {
        str(node.target): getattr(task.graph, str(node.target), None)
        for node in task.graph.graph.find_nodes(op="get_attr")
    }
    values = {**task.weights, **{n: v for n, v in held.items() if isinstance(v, torch.Tensor)}}
    types = [
        (node.name, str(node.meta["val"].dtype), [str(extent) for extent in node.meta["val"].shape])
        for node in task.inputs
    ]
    options = task.options
    content = {
        "version": [_VERSION, SCHEDULE_VERSION, torch.__version__, installed_versions()],
        "machine": device_name(options.threads),
        "options": [options.policy, options.precision, options.seconds, options.mode],
        "graph": task.graph.code,
        "outputs": [output.name for output in task.outputs],
        "inputs": types,
        "weights": {name: content_digest(value) for name, value in values.items()},
        "ranges": {name: str(extent) for name, extent in ranges.items()},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


@contextlib.contextmanager
def _plainly() -> Generator[None, None, None]:
    """Compile without the modes of the caller: gradients, inference mode, autocast and others."""
    from torch.utils._python_dispatch import _disable_current_modes

    with (
        _disable_current_modes(),
        torch.inference_mode(False),
        torch.no_grad(),
        torch.autocast("cpu", enabled=False),
    ):
        yield
