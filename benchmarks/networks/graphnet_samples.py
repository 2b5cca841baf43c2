"""Samples of GraphNet: graphs of torch's models, with shapes and statistics of all their tensors.

A sample is a folder. Its ``model.py`` has the graph as a module ``GraphModule`` without weights,
whose ``forward`` takes weights and inputs alike; ``weight_meta.py`` has a class for each of these.
Both files are executed.
"""

from __future__ import annotations

import inspect
import math
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def sample_names(checkout: Path, seed: int) -> list[str]:
    """Return the names of all samples in a random order, of which a draw is the beginning."""
    root = checkout / "samples"
    names = sorted(str(path.parent.relative_to(root)) for path in root.rglob("model.py"))
    random.Random(seed).shuffle(names)
    return names


def described_tensors(folder: Path) -> dict[str, Any]:
    """Return the description of each weight and input of a sample, by name."""
    content: dict[str, Any] = {}
    exec((folder / "weight_meta.py").read_text(), content)
    classes = [value for value in content.values() if hasattr(value, "shape")]
    return {described.name: described for described in classes}


def count_numbers(folder: Path) -> int:
    """Return the number of elements of all weights and inputs of a sample."""
    return sum(math.prod(described.shape) for described in described_tensors(folder).values())


def build(folder: Path, seed: int = 0) -> tuple[Any, list[Any]]:
    """Return a sample as a module with weights as buffers, and its inputs."""
    import torch

    torch.manual_seed(seed)
    graph = _graph(folder)
    described = described_tensors(folder)
    arguments = list(inspect.signature(graph.forward).parameters.values())
    values = {argument.name: _drawn(described[argument.name]) for argument in arguments}
    for argument in arguments:
        if "SymInt" in str(argument.annotation):
            values[argument.name] = int(values[argument.name])
    weights = [a.name for a in arguments if _is_weight(a, values[a.name])]

    class Sample(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in weights:
                self.register_buffer(name, values[name])
            self.graph = graph

        def forward(self, *inputs: Any) -> Any:
            given = iter(inputs)
            held = self._buffers
            return self.graph(*(held[a.name] if a.name in held else next(given) for a in arguments))

    inputs = [values[a.name] for a in arguments if a.name not in weights]
    return Sample().eval(), inputs


def flat_tensors(result: Any) -> list[Any]:
    """Return the tensors of a result, in order."""
    import torch
    from torch.utils import _pytree as pytree

    return [value for value in pytree.tree_leaves(result) if isinstance(value, torch.Tensor)]


def _graph(folder: Path) -> Any:
    # Samples were recorded on a GPU.
    code = re.sub(r"device\(type=\"cuda\"[^)]*\)", 'device(type="cpu")', _code(folder))
    content: dict[str, Any] = {}
    exec(compile(code, str(folder / "model.py"), "exec"), content)
    return content["GraphModule"]()


def _code(folder: Path) -> str:
    return (folder / "model.py").read_text()


def _is_weight(argument: inspect.Parameter, value: Any) -> bool:
    """Return whether an argument is a tensor of the recorded module, rather than its input."""
    import torch

    held = re.search(r"(_parameters_|_buffers_|^L_self_)", argument.name)
    return isinstance(value, torch.Tensor) and held is not None


def _drawn(described: Any) -> Any:
    """Return a tensor of a description: its data, or random numbers as it says."""
    import torch

    shape: Sequence[int] = described.shape
    dtype = getattr(torch, described.dtype.removeprefix("torch."))
    least, most = (getattr(described, f"{end}_val", None) for end in ("min", "max"))
    data = getattr(described, "data", None)
    if data is not None:
        return torch.tensor(data, dtype=dtype).reshape(shape)
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if not dtype.is_floating_point:
        # Without a range zero is the one index that all tables have.
        return torch.randint(least or 0, (most or 0) + 1, shape, dtype=dtype)
    numbers = torch.randn(shape) * (described.std or 0.0) + (described.mean or 0.0)
    if least is not None:
        # Variances, among others: none may come near zero more often than the numbers do.
        numbers = least + (numbers - least).abs()
    if most is not None:
        numbers = numbers.clamp(max=most)
    return numbers.to(dtype)
