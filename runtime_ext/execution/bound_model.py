"""Load models of other runtimes, such as TVM's own build and ONNX files, and run them on inputs."""

# TVM's nodes get their attributes at run time.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array


@dataclass(frozen=True, slots=True)
class Taken:
    """The parts of a model's operators and of its multiply-adds that a backend runs.

    The rest runs in plainer kernels of the same runtime.
    """

    operators: float = 1.0
    multiply_adds: float = 1.0


@dataclass(frozen=True, slots=True)
class BoundModel:
    """A model with its inputs set.

    ``run`` runs it once; ``outputs`` turns the result of ``run`` into arrays in the model's order.
    ``taken`` is less than all for a runtime that gives its backend only what that supports.
    """

    run: Callable[[], Any]
    outputs: Callable[[Any], list[Array]]
    taken: Taken = Taken()


#: Binds a model to inputs by name, in the model's order.
Bind = Callable[[Mapping[str, Array]], BoundModel]


def bind_library(path: Path) -> Bind:
    """Load a library that TVM compiled, weights included, on the CPU by TVM's Python package.

    It is a ``.so`` of Relax for the virtual machine, or of ``relay.build`` for the graph executor.
    TVM fixes its number of threads when it is loaded.
    """
    import tvm

    library: Any = tvm.runtime.load_module(str(path))
    if getattr(library, "type_key", None) == "GraphExecutorFactory":
        return lambda inputs: BoundModel(_graph_executor(library, inputs), _arrays)
    from tvm import relax

    main: Any = relax.VirtualMachine(library, tvm.cpu())["main"]

    def bind(inputs: Mapping[str, Array]) -> BoundModel:
        tensors = [tvm.runtime.tensor(value) for value in inputs.values()]
        return BoundModel(lambda: main(*tensors), _arrays)

    return bind


def library_runs(
    path: Path, samples: Iterable[Mapping[str, Array]]
) -> Iterator[tuple[list[Array], float]]:
    """Yield the outputs that a library of :func:`bind_library` computes from each sample.

    A sample has the inputs by name, in the model's order. With the outputs come the run's seconds.
    """
    for model in map(bind_library(path), samples):
        begin = time.perf_counter()
        outputs = model.outputs(model.run())
        yield outputs, time.perf_counter() - begin


def library_outputs(path: Path, samples: Iterable[Mapping[str, Array]]) -> list[list[Array]]:
    """Return the outputs of :func:`library_runs`."""
    return [outputs for outputs, _ in library_runs(path, samples)]


def _graph_executor(library: Any, inputs: Mapping[str, Array]) -> Callable[[], list[Any]]:
    import tvm
    from tvm.contrib import graph_executor

    model: Any = graph_executor.GraphModule(library["default"](tvm.cpu()))
    model.set_input(**inputs)
    places = range(model.get_num_outputs())

    def run() -> list[Any]:
        model.run()
        return [model.get_output(place) for place in places]

    return run


def _arrays(result: Any) -> list[Array]:
    return [tensor.numpy() for tensor in ([result] if hasattr(result, "numpy") else result)]


def bind_onnx(path: Path, threads: int) -> Bind:
    """Load an ONNX file into ONNX Runtime, on the CPU; raise UserError if it refuses the model."""
    session = onnx_session(path, threads)

    def bind(inputs: Mapping[str, Array]) -> BoundModel:
        feeds = onnx_feeds(session, inputs)
        return BoundModel(lambda: session.run(None, feeds), list)

    return bind


def onnx_session(
    path: Path, threads: int, cuda: Mapping[str, str] | None = None, *, spinning: bool = True
) -> Any:
    """Return an ``InferenceSession`` of an ONNX file; raise UserError if the runtime refuses it.

    ``cuda`` has the options of the CUDA provider, which then runs the whole model; None for the
    CPU. With ``spinning`` idle threads keep their CPU busy for a while before they sleep.
    """
    import onnxruntime

    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Log errors only: the warnings are about its optimisations.
    options.log_severity_level = 3
    if not spinning:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    provider: Any = "CPUExecutionProvider"
    if cuda is not None:
        provider = ("CUDAExecutionProvider", dict(cuda))
        # Otherwise operators that the provider cannot run would silently go to the CPU.
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=[provider])
    except Exception as error:
        raise UserError(f"ONNX Runtime refuses the model: {error}") from error


#: NumPy's names of types that ONNX Runtime names as C++ does.
_NUMPY_NAMES = {"float": "float32", "double": "float64"}


def onnx_feeds(session: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the values of an ONNX Runtime session's inputs.

    Inputs that ``inputs`` lacks, because only their (static) shape is read, are zeros.
    """
    feeds: dict[str, Array] = {}
    for port in session.get_inputs():
        if port.name in inputs:
            feeds[port.name] = inputs[port.name]
        else:
            kind = port.type.removeprefix("tensor(").removesuffix(")")
            feeds[port.name] = np.zeros(port.shape, _NUMPY_NAMES.get(kind, kind))
    return feeds
