"""A bundle's network in ONNX Runtime, which gets it as PyTorch exports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder

#: For a GPU its provider's options, by the names of peers.
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "onnxruntime": {},
    "onnxruntime-graph": {"enable_cuda_graph": "1"},
}


def onnx_runner(
    name: str, network: Any, inputs: Sequence[Any], *, gpu: bool, lanes: int, tf32: bool
) -> tuple[Callable[[], None], Callable[[], list[Any]]]:
    """What runs a network once, and what gives the outputs of a run.

    Inputs and outputs stay on the device, as those of the other peers do.

    Parameters
    ----------
    name
        Of :data:`OPTIONS`.
    network, inputs
        Torch's, on the CPU.
    gpu
        Whether to run there; else on the CPU, by one provider.
    lanes
        Threads on the CPU.
    tf32
        Whether a GPU may round what it multiplies.

    Raises
    ------
    UserError
        If this ONNX Runtime lacks the provider.
    ImportError
        If it is not installed, or what PyTorch's export needs.
    """
    import onnxruntime

    provider, device = _provider(name, gpu=gpu, tf32=tf32), "cuda" if gpu else "cpu"
    if provider[0] not in onnxruntime.get_available_providers():
        raise UserError(f"ONNX Runtime {onnxruntime.__version__} has no {provider[0]} here")
    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = lanes
    # Errors only: it warns of what it optimises.
    options.log_severity_level = 3
    if gpu:
        # What the provider cannot run would go to the CPU without a word.
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    with temporary_folder() as folder:
        path = folder / "network.onnx"
        _export(network, inputs, path)
        session: Any = onnxruntime.InferenceSession(str(path), options, providers=[provider])
    binding = session.io_binding()
    for port, value in zip(session.get_inputs(), inputs, strict=True):
        binding.bind_ortvalue_input(
            port.name, onnxruntime.OrtValue.ortvalue_from_numpy(value.numpy(), device, 0)
        )
    for port in session.get_outputs():
        # Where the output lies is settled by the first run: a captured graph writes there again.
        binding.bind_output(port.name, device)
    session.run_with_iobinding(binding)
    for port, value in zip(session.get_outputs(), binding.get_outputs(), strict=True):
        binding.bind_ortvalue_output(port.name, value)

    def run() -> None:
        session.run_with_iobinding(binding)

    return run, binding.copy_outputs_to_cpu


def _provider(name: str, *, gpu: bool, tf32: bool) -> tuple[str, dict[str, str]]:
    if gpu:
        # It would round unless told otherwise.
        return "CUDAExecutionProvider", {**OPTIONS[name], "use_tf32": str(int(tf32))}
    if name != "onnxruntime":
        raise UserError(f"{name} runs on GPUs only")
    return "CPUExecutionProvider", {}


def _export(network: Any, inputs: Sequence[Any], path: Path) -> None:
    import torch

    torch.onnx.export(network, tuple(inputs), str(path), dynamo=True, optimize=True, verbose=False)
