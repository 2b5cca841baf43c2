"""Modules of PyTorch, drawn only where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from tests.outside.case import Case, floats, kind
from tests.outside.edges import special


def _module(function: Callable[..., Any], *parts: Any) -> Any:
    """Return a module whose ``forward`` is a function of its parts and inputs."""
    import torch

    class Drawn(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleList(parts)

        def forward(self, *inputs: Any) -> Any:
            return function(*self.parts, *inputs)

    return Drawn().eval()


@kind("integers and numbers of Python in torch")
def _promoted(rng: Generator) -> Case:
    number = rng.choice([0.5, 2, 2.5, -1.5, 3]).item()
    number = int(number) if number == int(number) and rng.integers(2) else number
    dtype = str(rng.choice(["int64", "int32", "uint8", "bool", "float32"]))
    operator: Any = [
        lambda x: x + number,
        lambda x: x * number,
        lambda x: x / number,
        lambda x: number - x if x.dtype.is_floating_point or x.dtype.itemsize > 1 else x * number,
        lambda x: (x > 2) * number,
        lambda x: x.sum() * number,
        lambda x: x // number if isinstance(number, int) else x * number,
    ][int(rng.integers(7))]
    x = rng.integers(0, 5, (3, 4))
    return Case(_module(operator), {"x": (x > 2 if dtype == "bool" else x).astype(dtype)})


def _sampled(x: Any) -> Any:
    """Return an image's pixels at places that two of its channels say."""
    from torch.nn import functional as F

    return F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1).tanh(), align_corners=False)


@kind("modules of torch")
def _modules(rng: Generator) -> Case:
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.manual_seed(int(rng.integers(1000)))
    image, rows = floats(rng, 1, 4, 7, 7), floats(rng, 3, 6)
    ids = rng.integers(0, 6, (3, 4))
    size = int(rng.integers(2, 6))
    mode = str(rng.choice(["bilinear", "bicubic", "area", "nearest"]))
    choices: list[tuple[Any, tuple[Any, ...], Any]] = [
        (lambda x: F.adaptive_avg_pool2d(x, (size, 3)), (), image),
        (lambda x: F.interpolate(x, size=(size, 5), mode=mode), (), image),
        (lambda norm, x: norm(x), (nn.GroupNorm(2, 4, affine=bool(rng.integers(2))),), image),
        (lambda x: F.avg_pool2d(x, 2, divisor_override=3), (), image),
        (lambda x: F.max_pool2d(x, 2, return_indices=True), (), image),
        (lambda x: F.unfold(x, 3), (), image),
        (lambda x: F.fold(F.unfold(x, 3), (7, 7), 3), (), image),
        (lambda x: x.std(dim=-1), (), rows),
        (lambda x: x.var(dim=(0, 1), correction=0), (), rows),
        (lambda x: torch.linalg.vector_norm(x, ord=3, dim=1), (), rows),
        (lambda x: x.amax(dim=1), (), rows),
        (lambda x: torch.isfinite(x) & (x > 0), (), special(rng, 3, 6)),
        (lambda x: torch.where(x != x, 0.0, x), (), special(rng, 3, 6)),
        (lambda x: torch.nan_to_num(x, 0.5, 1.0, -1.0), (), special(rng, 3, 6)),
        (lambda x: x - x, (), special(rng, 3, 6)),
        (lambda table, x: table(x), (nn.Embedding(6, 5),), ids),
        (lambda bag, x: bag(x), (nn.EmbeddingBag(6, 5, mode="mean"),), ids),
        (lambda x: torch.zeros(3, 6).scatter_add(0, (x > 0).long(), x), (), rows),
        (lambda x: torch.zeros(6, 4).index_add(0, torch.tensor([0, 2, 5]), x.float()), (), ids),
        (lambda x: F.softshrink(x) + F.hardtanh(x) + F.celu(x) + F.logsigmoid(x), (), rows),
        (lambda x: F.glu(x) * F.mish(x[:, :3]), (), rows),
        (lambda x: torch.cumsum(x, 1).tril(), (), rows),
        (lambda x: (x.double() @ x.double().T).float(), (), rows),
        (lambda x: x**0.5, (), ids),
        (lambda layer, x: layer(x), (nn.TransformerEncoderLayer(6, 2, 8, batch_first=True),), rows),
        (lambda layer, x: layer(x)[0], (nn.LSTM(6, 5, batch_first=True),), rows[None]),
        (lambda x: F.pixel_shuffle(x, 2), (), image),
        (
            lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1).tanh(), align_corners=False),
            (),
            image,
        ),
    ]
    function, parts, x = choices[int(rng.integers(len(choices)))]
    return Case(_module(function, *parts), {"x": np.asarray(x)})
