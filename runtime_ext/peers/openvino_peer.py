"""OpenVINO as a peer on CPUs, with default settings but for threads and precision.

Inputs lie in its own memory, as those of our programs do in theirs.
"""

# OpenVINO's stubs lack properties.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any

import openvino
from openvino import properties
from openvino.properties import hint

from runtime_ext.execution.bound_model import BoundModel
from runtime_ext.peers.peer import PeerModel, Submit
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder

_PRECISIONS = {"bfloat16": openvino.Type.bf16}


def start(network: PeerModel) -> BoundModel:
    """Start OpenVINO on a model for the least latency: one request at a time."""
    compiled = _compiled(network, {hint.performance_mode: hint.PerformanceMode.LATENCY})
    request = compiled.create_infer_request()
    for name, array in network.inputs.items():
        tensor = request.get_tensor(name)
        tensor.shape = array.shape
        tensor.data[...] = array

    def run() -> None:
        # `infer` would copy the outputs into a dictionary.
        request.start_async()
        request.wait()

    return BoundModel(
        run, lambda _: [request.get_tensor(port).data.copy() for port in compiled.outputs]
    )


def serve(network: PeerModel, in_flight: int, opened: ExitStack) -> dict[str, Submit]:
    """Return an asynchronous queue, tuned for throughput of ``in_flight`` requests at once."""
    hints = {
        hint.performance_mode: hint.PerformanceMode.THROUGHPUT,
        hint.num_requests: in_flight,
    }
    compiled = _compiled(network, hints)
    queue = openvino.AsyncInferQueue(compiled, in_flight)
    opened.callback(queue.wait_all)

    def done(request: Any, future: Future[Any]) -> None:
        future.set_result([request.get_tensor(port).data.copy() for port in compiled.outputs])

    queue.set_callback(done)

    def submit(request: Mapping[str, Any]) -> Future[Any]:
        future: Future[Any] = Future()
        queue.start_async(dict(request), future)
        return future

    return {"openvino": submit}


def _compiled(network: PeerModel, hints: Mapping[Any, Any]) -> Any:
    """Compile the model for as many threads as there are lanes."""
    core = openvino.Core()
    settings = {
        **hints,
        # Left alone, it would compute in bfloat16 where the processor can.
        hint.inference_precision: _PRECISIONS.get(network.precision, openvino.Type.f32),
        properties.inference_num_threads: network.lanes,
    }
    with temporary_folder() as folder:
        try:
            model = core.read_model(network.onnx_file(folder))
            if not network.is_open:
                model.reshape({name: array.shape for name, array in network.inputs.items()})
            return core.compile_model(model, "CPU", settings)
        except RuntimeError as error:
            raise UserError(f"OpenVINO refuses the model: {error}") from error
