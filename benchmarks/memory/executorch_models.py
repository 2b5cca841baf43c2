"""Ten torch models of the kinds that embedded programs have, in any size, with random weights."""
# pyright: basic, reportMissingImports=warning

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

#: A model and example inputs of it.
Example = tuple[nn.Module, tuple[Tensor, ...]]


class Branches(nn.Module):
    """Modules that read the same tensors, and a function of their results."""

    def __init__(self, join: Callable[[list[Tensor]], Tensor], *branches: nn.Module) -> None:
        super().__init__()
        self.join, self.branches = join, nn.ModuleList(branches)

    def forward(self, *tensors: Tensor) -> Tensor:
        return self.join([branch(*tensors) for branch in self.branches])


def channels(tensors: list[Tensor]) -> Tensor:
    """Put the channels of images one behind the other."""
    return torch.cat(tensors, 1)


def total(tensors: list[Tensor]) -> Tensor:
    return sum(tensors[1:], tensors[0])


def conv(inside: int, outside: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> Any:
    return nn.Sequential(
        nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(),
    )


def separable(inside: int, outside: int, kernel: int = 3, stride: int = 1) -> Any:
    return nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(inside, inside, kernel, stride, kernel // 2, groups=inside),
        nn.Conv2d(inside, outside, 1),
    )


def image(size: int) -> tuple[Tensor, ...]:
    return (torch.randn(1, 3, 16 * size, 16 * size),)


def head(inside: int) -> Any:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 10))


def inception(size: int) -> Example:
    """Two modules of GoogLeNet's kind: four branches each."""

    def module(inside: int, width: int) -> Branches:
        return Branches(
            channels,
            conv(inside, width),
            nn.Sequential(conv(inside, width), conv(width, 2 * width, 3)),
            nn.Sequential(conv(inside, width // 2), conv(width // 2, width, 5)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(inside, width)),
        )

    width = 4 * size
    layers = (conv(3, width, 3), module(width, width), nn.MaxPool2d(2), module(5 * width, width))
    return nn.Sequential(*layers, head(5 * width)), image(size)


def densenet(size: int) -> Example:
    """A dense block of six layers, in which each reads all earlier ones."""

    class Block(nn.Module):
        def __init__(self, inside: int, growth: int) -> None:
            super().__init__()
            self.layers = nn.ModuleList(
                nn.Sequential(conv(inside + n * growth, 2 * growth), conv(2 * growth, growth, 3))
                for n in range(6)
            )

        def forward(self, x: Tensor) -> Tensor:
            features = [x]
            for layer in self.layers:
                features.append(layer(torch.cat(features, 1)))
            return torch.cat(features, 1)

    width = 4 * size
    layers = (conv(3, 2 * width, 3, 2), Block(2 * width, width), conv(8 * width, 4 * width))
    return nn.Sequential(*layers, head(4 * width)), image(size)


def nasnet(size: int) -> Example:
    """Two cells of NASNet-A's kind: five sums of two operators, over the two cells before."""

    class Sum(nn.Module):
        def __init__(self, *ways: nn.Module) -> None:
            super().__init__()
            self.ways = nn.ModuleList(ways)

        def forward(self, *tensors: Tensor) -> Tensor:
            return total([way(x) for way, x in zip(self.ways, tensors, strict=True)])

    class Cell(nn.Module):
        def __init__(self, before: int, inside: int, width: int) -> None:
            super().__init__()
            self.fit = nn.ModuleList((conv(before, width), conv(inside, width)))
            self.sums = nn.ModuleList(
                Sum(first, second)
                for first, second in (
                    (separable(width, width, 5), separable(width, width, 3)),
                    (separable(width, width, 5), separable(width, width, 3)),
                    (nn.AvgPool2d(3, 1, 1), nn.Identity()),
                    (nn.AvgPool2d(3, 1, 1), nn.AvgPool2d(3, 1, 1)),
                    (separable(width, width, 3), nn.Identity()),
                )
            )

        def forward(self, before: Tensor, x: Tensor) -> Tensor:
            left, right = self.fit[0](before), self.fit[1](x)
            read = ((right, left), (left, left), (right, left), (left, left), (right, right))
            sums = [pair(*both) for pair, both in zip(self.sums, read, strict=True)]
            return torch.cat([left, *sums], 1)

    class Network(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.stem = conv(3, width, 3)
            self.cells = nn.ModuleList((Cell(width, width, width), Cell(width, 6 * width, width)))
            self.head = head(6 * width)

        def forward(self, x: Tensor) -> Tensor:
            before = x = self.stem(x)
            for cell in self.cells:
                before, x = x, cell(before, x)
            return self.head(x)

    return Network(4 * size), image(size)


def randwire(size: int) -> Example:
    """A random graph of sixteen separable convolutions, each of a sum of earlier ones."""

    class Network(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            rng = np.random.default_rng(3)
            self.sources = [
                sorted(map(int, rng.choice(n, min(n, int(rng.integers(1, 4))), replace=False)))
                for n in range(1, 17)
            ]
            self.stem = conv(3, width, 3)
            self.nodes = nn.ModuleList(separable(width, width) for _ in self.sources)
            self.head = head(width)

        def forward(self, x: Tensor) -> Tensor:
            made = [self.stem(x)]
            for node, sources in zip(self.nodes, self.sources, strict=True):
                made.append(node(total([made[source] for source in sources])))
            read = {source for sources in self.sources for source in sources}
            return self.head(total([each for n, each in enumerate(made) if n not in read]))

    return Network(4 * size), image(size)


def unet(size: int) -> Example:
    """Three resolutions down and up again, joined across."""

    class Network(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            widths = (width, 2 * width, 4 * width)
            self.down = nn.ModuleList(conv(a, b, 3) for a, b in pairwise((3, *widths)))
            self.middle = conv(widths[-1], widths[-1], 3)
            self.up = nn.ModuleList(conv(2 * b, a, 3) for a, b in pairwise((width, *widths)))
            self.last = nn.Conv2d(width, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            kept: list[Tensor] = []
            for layer in self.down:
                kept.append(layer(x))
                x = functional.max_pool2d(kept[-1], 2)
            x = self.middle(x)
            for layer in reversed(self.up):
                x = functional.interpolate(x, scale_factor=2.0)
                x = layer(torch.cat([x, kept.pop()], 1))
            return self.last(x)

    return Network(4 * size), image(size)


def resnet(size: int) -> Example:
    """Four residual blocks, of which one halves the image."""

    def block(inside: int, width: int, stride: int = 1) -> Any:
        way = nn.Sequential(conv(inside, width, 3, stride), conv(width, width, 3))
        same = inside == width and stride == 1
        return nn.Sequential(
            Branches(total, way, nn.Identity() if same else conv(inside, width, 1, stride)),
            nn.ReLU(),
        )

    width = 4 * size
    blocks = (block(width, width), block(width, 2 * width, 2), block(2 * width, 2 * width))
    layers = (conv(3, width, 3), *blocks)
    return nn.Sequential(*layers, head(2 * width)), image(size)


def mobilenet(size: int) -> Example:
    """Three inverted residuals of MobileNet-v2's kind, with squeeze and excitation."""

    class Squeezed(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.gate = nn.Sequential(
                nn.AdaptiveAvgPool2d(1),
                nn.Conv2d(width, width // 4, 1),
                nn.ReLU(),
                nn.Conv2d(width // 4, width, 1),
                nn.Hardsigmoid(),
            )

        def forward(self, x: Tensor) -> Tensor:
            return x * self.gate(x)

    def block(inside: int, width: int, stride: int) -> Any:
        wide = 6 * inside
        way = nn.Sequential(
            conv(inside, wide),
            conv(wide, wide, 3, stride, groups=wide),
            Squeezed(wide),
            nn.Conv2d(wide, width, 1),
        )
        return Branches(total, way, nn.Identity()) if inside == width and stride == 1 else way

    width = 4 * size
    blocks = (block(width, width, 1), block(width, 2 * width, 2), block(2 * width, 2 * width, 1))
    return nn.Sequential(conv(3, width, 3, 2), *blocks, head(2 * width)), image(size)


def encoder(size: int) -> Example:
    """Two layers of a transformer's encoder."""

    class Attention(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.projections = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
            self.out = nn.Linear(width, width)

        def forward(self, x: Tensor) -> Tensor:
            query, key, value = (
                layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                for layer in self.projections
            )
            weights = (query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5).softmax(-1)
            return self.out((weights @ value).transpose(1, 2).flatten(2))

    def layer(width: int) -> Any:
        attention = nn.Sequential(nn.LayerNorm(width), Attention(width, 4))
        wide = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        return nn.Sequential(*(Branches(total, way, nn.Identity()) for way in (attention, wide)))

    width = 16 * size
    model = nn.Sequential(layer(width), layer(width), nn.Linear(width, 10))
    return model, (torch.randn(1, 8 * size, width),)


def lstm(size: int) -> Example:
    """An LSTM in both directions, step by step."""

    class Network(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.ways = nn.ModuleList(nn.Linear(2 * width, 4 * width) for _ in range(2))
            self.last = nn.Linear(2 * width, 10)

        def forward(self, x: Tensor) -> Tensor:
            steps = x.unbind(1)
            made = [self.states(self.ways[0], steps), self.states(self.ways[1], steps[::-1])[::-1]]
            return self.last(
                torch.stack([torch.cat(both, -1) for both in zip(*made, strict=True)], 1)
            )

        @staticmethod
        def states(way: nn.Module, steps: tuple[Tensor, ...]) -> list[Tensor]:
            state = memory = torch.zeros_like(steps[0])
            states: list[Tensor] = []
            for step in steps:
                gates = way(torch.cat([step, state], -1)).chunk(4, -1)
                take, keep, give = (gate.sigmoid() for gate in gates[:3])
                memory = keep * memory + take * gates[3].tanh()
                state = give * memory.tanh()
                states.append(state)
            return states

    width = 8 * size
    return Network(width), (torch.randn(1, 4, width),)


def streaming(size: int) -> Example:
    """Causal convolutions that remember the samples before, in buffers that every call changes."""

    class Causal(nn.Module):
        def __init__(self, inside: int, outside: int) -> None:
            super().__init__()
            self.conv = nn.Conv1d(inside, outside, 3)
            self.before: Tensor
            self.register_buffer("before", torch.zeros(1, inside, 2))

        def forward(self, x: Tensor) -> Tensor:
            x = torch.cat([self.before, x], 2)
            self.before.copy_(x[:, :, -2:])
            return self.conv(x).relu()

    class Network(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.first = Causal(4, width)
            self.ways = Branches(channels, *(Causal(width, width) for _ in range(3)))
            self.last = Causal(3 * width, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.ways(self.first(x)))

    return Network(8 * size), (torch.randn(1, 4, 16 * size),)


#: The models by name; each takes a size, of which 1 is the smallest.
MODELS: dict[str, Callable[[int], Example]] = {
    make.__name__: make
    for make in (
        *(inception, densenet, nasnet, randwire, unet),
        *(resnet, mobilenet, encoder, lstm, streaming),
    )
}


def example(name: str, size: int) -> Example:
    """Return a model that infers and inputs of it, always the same."""
    torch.manual_seed(0)
    model, inputs = MODELS[name](size)
    return model.eval().requires_grad_(False), inputs
