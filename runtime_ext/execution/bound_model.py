"""Models that are ready to run on their inputs: TVM's own build, ONNX files, and others."""

# TVM's nodes get their attributes at run time.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array


@dataclass(frozen=True, slots=True)
class BoundModel:
    """A model that is ready to run on its inputs.

    Attributes
    ----------
    run
        Runs the model once; what it returns is for :attr:`outputs` alone.
    outputs
        The outputs, in the model's order, from what ``run`` returned.
    """

    run: Callable[[], Any]
    outputs: Callable[[Any], list[Array]]


#: Binds a model to inputs by name, in the model's order.
Bind = Callable[[Mapping[str, Array]], BoundModel]


def bind_library(path: Path) -> Bind:
    """Load what TVM compiled, weights included, on the CPU by TVM's Python package.

    TVM counts its threads when it is loaded.

    Parameters
    ----------
    path
        The ``.so``: of Relax for the virtual machine, or of ``relay.build`` for the graph executor.
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


def library_outputs(
    path: Path, samples: Iterable[Mapping[str, Array]], patience: float = math.inf
) -> list[list[Array]]:
    """What a library of :func:`bind_library` computes from each sample of inputs.

    Parameters
    ----------
    path
        The ``.so``.
    samples
        The inputs by name, in the model's order.
    patience
        Seconds of a run after which the samples that follow are left out.
    """
    outputs: list[list[Array]] = []
    for model in map(bind_library(path), samples):
        begin = time.perf_counter()
        outputs.append(model.outputs(model.run()))
        if time.perf_counter() - begin > patience:
            break
    return outputs


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
    """Load an ONNX file into ONNX Runtime, on the CPU.

    Raises
    ------
    UserError
        If ONNX Runtime refuses the model.
    """
    session = onnx_session(path, threads)

    def bind(inputs: Mapping[str, Array]) -> BoundModel:
        feeds = onnx_feeds(session, inputs)
        return BoundModel(lambda: session.run(None, feeds), list)

    return bind


def onnx_session(
    path: Path, threads: int, cuda: Mapping[str, str] | None = None, *, spinning: bool = True
) -> Any:
    """An ``InferenceSession`` of ONNX Runtime.

    Parameters
    ----------
    path
        The ONNX file.
    threads
        How many it may use.
    cuda
        Options of its provider of CUDA, which runs all of the model; None for the CPU.
    spinning
        Whether its threads look for work for a while before they sleep.

    Raises
    ------
    UserError
        If ONNX Runtime refuses the model.
    """
    import onnxruntime

    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Errors only: it warns of what it optimises.
    options.log_severity_level = 3
    if not spinning:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    provider: Any = "CPUExecutionProvider"
    if cuda is not None:
        provider = ("CUDAExecutionProvider", dict(cuda))
        # What the provider cannot run would go to the CPU without a word.
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=[provider])
    except Exception as error:
        raise UserError(f"ONNX Runtime refuses the model: {error}") from error


#: Of types that ONNX Runtime names as C++ does what NumPy calls them.
_NUMPY_NAMES = {"float": "float32", "double": "float64"}


def onnx_feeds(session: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What a session of ONNX Runtime reads.

    Parameters
    ----------
    session
        Of a model; what `inputs` lack is static.
    inputs
        Those of a program of the model; what it lacks, because nothing but its shape is read, is
        zeros.
    """
    feeds: dict[str, Array] = {}
    for port in session.get_inputs():
        if port.name in inputs:
            feeds[port.name] = inputs[port.name]
        else:
            kind = port.type.removeprefix("tensor(").removesuffix(")")
            feeds[port.name] = np.zeros(port.shape, _NUMPY_NAMES.get(kind, kind))
    return feeds
