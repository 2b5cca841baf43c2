"""PyTorch as a peer in inference mode: eager, by captured CUDA graphs, and compiled by inductor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from runtime_ext.execution.bound_model import BoundModel
from runtime_ext.peers.peer import PeerModel

#: Returns, for a module and its inputs, the function that runs it once.
_Prepare = Callable[[Any, list[torch.Tensor]], Callable[[], Any]]


def start(network: PeerModel) -> BoundModel:
    """Start eager PyTorch; on CPUs images have their channels innermost, the layout of oneDNN."""
    return _start(network, _eager, nhwc=not network.gpu)


def start_nhwc(network: PeerModel) -> BoundModel:
    """Start eager PyTorch with channels innermost."""
    return _start(network, _eager, nhwc=True)


def start_graph(network: PeerModel) -> BoundModel:
    """Start PyTorch with the model captured in a CUDA graph."""
    return _start(network, _captured, nhwc=False)


def start_graph_nhwc(network: PeerModel) -> BoundModel:
    """Start PyTorch with the model captured in a CUDA graph, channels innermost."""
    return _start(network, _captured, nhwc=True)


def start_compiled(network: PeerModel) -> BoundModel:
    """Start ``torch.compile`` with reduced overhead, which on GPUs is its own CUDA graph."""
    return _start(network, _compiled("reduce-overhead", network), nhwc=not network.gpu)


def start_max_autotune(network: PeerModel) -> BoundModel:
    """Start ``torch.compile`` with kernels chosen by measuring."""
    return _start(network, _compiled("max-autotune", network), nhwc=not network.gpu)


def _start(network: PeerModel, prepare: _Prepare, *, nhwc: bool) -> BoundModel:
    module = network.torch_module()
    names = module.input_names
    inputs = [torch.from_numpy(network.inputs[name]) for name in names]
    if network.gpu:
        tf32 = network.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = True
        module, inputs = module.to("cuda"), [value.to("cuda") for value in inputs]
    else:
        torch.set_num_threads(network.lanes)
    if nhwc:
        innermost: Any = torch.channels_last
        module = module.to(memory_format=innermost)
        inputs = [x.contiguous(memory_format=innermost) if x.dim() == 4 else x for x in inputs]
    call = prepare(module, inputs)
    rounds = network.precision == "bfloat16"

    def run() -> Any:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=rounds):
            outputs = call()
        if network.gpu:
            torch.cuda.synchronize()
        return outputs

    # Compilers compile in the first run and capture in the second.
    for _ in range(3):
        run()
    return BoundModel(run, lambda outputs: list(map(_array, outputs)))


def _array(value: torch.Tensor) -> Any:
    """Return a tensor as a NumPy array; bfloat16, which NumPy lacks, becomes float32."""
    return (value.float() if value.dtype == torch.bfloat16 else value).cpu().numpy()


def _eager(module: Any, inputs: list[torch.Tensor]) -> Callable[[], Any]:
    return lambda: module(*inputs)


def _captured(module: Any, inputs: list[torch.Tensor]) -> Callable[[], Any]:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.inference_mode(), torch.cuda.stream(stream):
        for _ in range(3):
            module(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        outputs = module(*inputs)

    def replay() -> Any:
        graph.replay()
        return outputs

    return replay


def _compiled(mode: str, network: PeerModel) -> _Prepare:
    import torch._inductor.config as inductor

    settings: Any = inductor
    # As the manual of inductor says for inference; on GPUs its graphs have default settings.
    settings.freezing = not network.gpu

    def prepare(module: Any, inputs: list[torch.Tensor]) -> Callable[[], Any]:
        compiled = torch.compile(module, mode=mode)
        return lambda: compiled(*inputs)

    return prepare
