"""OpenVINO on CPUs, with its own choice of everything but threads and precision.

Inputs lie in its own memory, as those of our programs do in theirs.
"""

from __future__ import annotations

import openvino
from openvino import properties
from openvino.properties import hint

from runtime_ext.execution.bound_model import BoundModel
from runtime_ext.peers.peer import PeerModel
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder


def start(network: PeerModel) -> BoundModel:
    """One request at a time, for the least latency."""
    core = openvino.Core()
    with temporary_folder() as folder:
        try:
            model = core.read_model(network.onnx_file(folder))
            model.reshape({name: array.shape for name, array in network.inputs.items()})
            compiled = core.compile_model(
                model,
                "CPU",
                {
                    hint.performance_mode: hint.PerformanceMode.LATENCY,
                    # It would compute in bfloat16 where the processor can.
                    hint.inference_precision: openvino.Type.f32,
                    properties.inference_num_threads: network.lanes,
                },
            )
        except RuntimeError as error:
            raise UserError(f"OpenVINO refuses the model: {error}") from error
    request = compiled.create_infer_request()
    for name, array in network.inputs.items():
        request.get_tensor(name).data[...] = array

    def run() -> None:
        # `infer` would copy the outputs into a dictionary.
        request.start_async()
        request.wait()

    return BoundModel(
        run, lambda _: [request.get_tensor(port).data.copy() for port in compiled.outputs]
    )
