"""ONNX Runtime as a peer, with all its optimisations and default settings.

Inputs and outputs lie in its own memory, as those of our programs do in theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import onnxruntime

from runtime_ext.execution.bound_model import BoundModel, onnx_feeds, onnx_session
from runtime_ext.peers.peer import PeerModel, Submit
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder


def start(network: PeerModel) -> BoundModel:
    """Start ONNX Runtime on a model, with its provider of CPUs, or of CUDA."""
    return _start(network)


def start_graph(network: PeerModel) -> BoundModel:
    """Start ONNX Runtime's provider of CUDA on a model, with its kernels captured in a graph."""
    return _start(network, enable_cuda_graph="1")


def serve(network: PeerModel, in_flight: int, opened: ExitStack) -> dict[str, Submit]:
    """Return two ways to serve: a session of one thread a lane, and one session of all threads."""
    counts = dict.fromkeys(((network.lanes, 1), (1, network.lanes)))
    return {
        f"onnxruntime {sessions} x {threads}": _sessions(network, sessions, threads, opened)
        for sessions, threads in counts
    }


def _sessions(network: PeerModel, sessions: int, threads: int, opened: ExitStack) -> Submit:
    """Return a function that queues requests for this many sessions, each with its own thread."""
    with temporary_folder() as folder:
        path = network.onnx_file(folder)
        # Spinning threads would take the CPU of another session.
        free = [onnx_session(path, threads, spinning=sessions == 1) for _ in range(sessions)]
    pool = opened.enter_context(ThreadPoolExecutor(sessions))

    def run(request: Mapping[str, Any]) -> list[Any]:
        session = free.pop()
        try:
            return session.run(None, onnx_feeds(session, request))
        finally:
            free.append(session)

    return lambda request: pool.submit(run, request)


def _start(network: PeerModel, **cuda_options: str) -> BoundModel:
    device = "cuda" if network.gpu else "cpu"
    provider = f"{device.upper()}ExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        raise UserError(f"ONNX Runtime {onnxruntime.__version__} has no {provider} here")
    # It would round unless told otherwise.
    cuda = {**cuda_options, "use_tf32": str(int(network.precision == "tf32"))}
    with temporary_folder() as folder:
        path = network.onnx_file(folder)
        session = onnx_session(path, network.lanes, cuda if network.gpu else None)
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
    return BoundModel(
        lambda: session.run_with_iobinding(binding), lambda _: binding.copy_outputs_to_cpu()
    )
