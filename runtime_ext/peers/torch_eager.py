"""torch as it is: inference mode, images with their channels innermost (as oneDNN wants them)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx
import torch

from runtime_ext.peers.runner import Array, Started
from runtime_ext.peers.torch_import.network import torch_network


def start(path: Path, inputs: Mapping[str, Array], lanes: int) -> Started:
    """Turn an ONNX file into a torch module."""
    return start_with(lambda network: network, path, inputs, lanes)


def start_with(
    prepare: Callable[[Any], Callable[..., Any]],
    path: Path,
    inputs: Mapping[str, Array],
    lanes: int,
) -> Started:
    """The same for what ``prepare`` makes of the module."""
    torch.set_num_threads(lanes)
    model: Any = onnx.load(path)
    network: Any = torch_network(model)
    network.to(memory_format=torch.channels_last)
    function = prepare(network)
    tensors = [_as_used(inputs[value.name]) for value in model.graph.input]

    def run() -> Any:
        with torch.inference_mode():
            return function(*tensors)

    return Started(run, lambda result: [tensor.numpy() for tensor in result])


def _as_used(array: Array) -> torch.Tensor:
    tensor = torch.from_numpy(array)
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor
