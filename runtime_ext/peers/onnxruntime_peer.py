"""ONNX Runtime, with all its optimisations and its own choice of everything else.

Inputs and outputs lie in its own memory, as those of our programs do in theirs.
"""

from __future__ import annotations

from typing import Any

import onnxruntime

from runtime_ext.execution.bound_model import onnx_feeds
from runtime_ext.peers.peer import PeerModel, Started
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder


def start(network: PeerModel) -> Started:
    """ONNX Runtime's provider of CPUs, or of CUDA."""
    return _start(network)


def start_graph(network: PeerModel) -> Started:
    """ONNX Runtime's provider of CUDA, its kernels captured in a graph."""
    return _start(network, enable_cuda_graph="1")


def _start(network: PeerModel, **cuda_options: str) -> Started:
    provider: Any = "CPUExecutionProvider"
    if network.gpu:
        # It would round unless told otherwise.
        tf32 = str(int(network.precision == "tf32"))
        provider = ("CUDAExecutionProvider", {**cuda_options, "use_tf32": tf32})
    name = provider[0] if network.gpu else provider
    if name not in onnxruntime.get_available_providers():
        raise UserError(f"ONNX Runtime {onnxruntime.__version__} has no {name} here")
    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = network.lanes
    # Errors only: it warns of what it optimises.
    options.log_severity_level = 3
    if network.gpu:
        # What the provider cannot run would go to the CPU without a word.
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    with temporary_folder() as folder:
        path = network.onnx_file(folder)
        try:
            session: Any = onnxruntime.InferenceSession(str(path), options, providers=[provider])
        except Exception as error:
            raise UserError(f"ONNX Runtime refuses the model: {error}") from error
    device = "cuda" if network.gpu else "cpu"
    binding = session.io_binding()
    for name, array in onnx_feeds(session, network.inputs).items():
        value = onnxruntime.OrtValue.ortvalue_from_numpy(array, device, 0)
        binding.bind_ortvalue_input(name, value)
    for port in session.get_outputs():
        # Where the output lies is settled by the first run: a captured graph writes there again.
        binding.bind_output(port.name, device)
    session.run_with_iobinding(binding)
    for port, value in zip(session.get_outputs(), binding.get_outputs(), strict=True):
        binding.bind_ortvalue_output(port.name, value)
    return Started(
        lambda: session.run_with_iobinding(binding), lambda _: binding.copy_outputs_to_cpu()
    )
