"""Programs of torch of any sizes: positions, masks and padding that are made of the shape."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from relay_passes.relax.ranges.units import load_open_model  # noqa: E402
from runtime_ext.targets import target_backend  # noqa: E402
from runtime_ext.unit_build import build_units  # noqa: E402
from tests.fast_run import only  # noqa: E402
from tests.torch_sketch import save  # noqa: E402
from tvm_ios.shapes.ranges import parse_ranges  # noqa: E402

nn = torch.nn
WORDS, WIDTH, HEADS, LONGEST = 50, 32, 4, 40


class Attention(nn.Module):
    """Attention with an added bias, and its residual."""

    def __init__(self) -> None:
        super().__init__()
        self.inward, self.outward = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any, bias: Any) -> Any:
        batch, length, _ = x.shape
        parts = self.inward(x).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5 + bias
        mixed = scores.softmax(-1) @ value
        return x + self.outward(mixed.transpose(1, 2).reshape(batch, length, WIDTH))


class Encoder(nn.Module):
    """Words, the begin of a table of positions, and a mask of what is there."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.attention = Attention()

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        x = self.words(input_ids) + self.places(self.positions(input_ids, attention_mask))
        bias = self.bias(input_ids.shape[1])
        there = attention_mask[:, None, None, :].to(x.dtype)
        return self.pooled(self.attention(x, bias + (1 - there) * -1e9), attention_mask)

    def positions(self, input_ids: Any, attention_mask: Any) -> Any:
        return torch.arange(input_ids.shape[1])[None]

    def bias(self, length: int) -> Any:
        return torch.zeros(1)

    def pooled(self, x: Any, attention_mask: Any) -> Any:
        there = attention_mask[..., None].expand(x.size()).float()
        return (x * there).sum(1) / there.sum(1).clamp(min=1e-9)


class Decoder(Encoder):
    """Causal; positions count the words that are there, and the last word's state is taken."""

    def positions(self, input_ids: Any, attention_mask: Any) -> Any:
        return (attention_mask.cumsum(-1) - 1).clamp(min=0)

    def bias(self, length: int) -> Any:
        return torch.full((length, length), -1e9).triu(diagonal=1)

    def pooled(self, x: Any, attention_mask: Any) -> Any:
        return x[torch.arange(x.shape[0]), attention_mask.sum(1) - 1]


class Linear(Decoder):
    """Causal, with a bias that grows to the last word (ALiBi): of any length the same end."""

    def bias(self, length: int) -> Any:
        slopes = 2.0 ** -torch.arange(1, HEADS + 1)
        return torch.arange(1 - length, 1) * slopes[:, None, None] + super().bias(length)


class Buckets(Encoder):
    """Learned biases of relative distances, far ones in logarithmic buckets, as of T5."""

    def __init__(self) -> None:
        super().__init__()
        self.distances = nn.Embedding(8, HEADS)

    def bias(self, length: int) -> Any:
        places = torch.arange(length)
        apart = places[None] - places[:, None]
        far = 2 + (torch.log(apart.abs().float().clamp(min=1) / 2) / log(10) * 2).long()
        near = torch.where(apart.abs() < 2, apart.abs(), far.clamp(max=3))
        return self.distances((apart > 0).long() * 4 + near).permute(2, 0, 1)[None]


class Patches(nn.Module):
    """Patches of an image of any size, with positions that are resized from a grid."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.attention = nn.Conv2d(3, WIDTH, 8, 8), Attention()
        self.first = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.places = nn.Parameter(torch.randn(1, WIDTH, 4, 4))

    def forward(self, image: Any) -> Any:
        x = self.patches(image)
        places = nn.functional.interpolate(self.places, size=x.shape[2:], mode="bicubic")
        x = (x + places).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(x.shape[0], -1, -1), x), 1)
        return self.attention(x, torch.zeros(1))[:, 0]


class Spectra(nn.Module):
    """Strided convolutions in time and a table of positions, as of Whisper's encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(10, WIDTH, 3, padding=1)
        self.second = nn.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.places, self.attention = nn.Parameter(torch.randn(LONGEST, WIDTH)), Attention()

    def forward(self, spectra: Any) -> Any:
        x = nn.functional.gelu(self.second(nn.functional.gelu(self.first(spectra))))
        x = x.transpose(1, 2)
        return self.attention(x + self.places[: x.shape[1]], torch.zeros(1))


def _texts(batch: int, length: int) -> dict[str, Any]:
    generator = np.random.default_rng((batch, length))
    count = generator.integers(1, length + 1, (batch, 1))
    return {
        "input_ids": generator.integers(0, WORDS, (batch, length)),
        "attention_mask": (np.arange(length) < count).astype(np.int64),
    }


def _floats(name: str, *shape: int) -> dict[str, Any]:
    return {name: np.random.default_rng(shape).standard_normal(shape, np.float32)}


def _exported(module: Any, sample: Mapping[str, Any], folder: Path, *ends: tuple[int, int]) -> str:
    """Save a module whose inputs have dynamic dimensions, in order; the others are numbers."""
    dims = [torch.export.Dim(f"d{n}", min=least, max=most) for n, (least, most) in enumerate(ends)]
    axes = {name: dict(zip(_open_axes(value), dims, strict=True)) for name, value in sample.items()}
    inputs = tuple(map(torch.from_numpy, sample.values()))
    return save(module, inputs, folder / "model.pt2", dynamic_shapes=axes)


def _open_axes(value: Any) -> tuple[int, ...]:
    """The batch and the length of texts and spectra; the height and width of images."""
    return {2: (0, 1), 3: (0, 2), 4: (2, 3)}[value.ndim]


def _compare(module: Any, path: str, ranges: list[str], folder: Path, every: list[Any]) -> None:
    opened = load_open_model(path, parse_ranges(ranges)).opened
    built = build_units(opened.units, target_backend("llvm", 2, folder / "kernels").compiler, 2)
    session = built.session(executor="poisoning")
    for inputs in every:
        session.run(**inputs)
        with torch.no_grad():
            want = module(*map(torch.from_numpy, inputs.values())).numpy()
        got = session.get_output(0)
        assert got.shape == want.shape
        assert np.abs(got - want).max() <= 1e-4, [value.shape for value in inputs.values()]
    session.close()


def _text_model(module: Any, folder: Path) -> None:
    torch.manual_seed(0)
    path = _exported(module, _texts(2, 7), folder, (1, 8), (3, LONGEST))
    ranges = [f"{name}:1..8,3..{LONGEST}" for name in _texts(1, 1)]
    every = [_texts(b, n) for b, n in product((1, 2, 5, 8), (3, 4, 17, 32, LONGEST))]
    _compare(module, path, ranges, folder, every)


@pytest.mark.parametrize("kind", only([Encoder], [Encoder, Linear, Decoder]))
def test_texts_with_positions_and_masks(kind: Any, tmp_path: Path) -> None:
    _text_model(kind(), tmp_path)


@pytest.mark.slow
def test_texts_with_biases_of_distances(tmp_path: Path) -> None:
    _text_model(Buckets(), tmp_path)


@pytest.mark.slow
def test_positions_that_are_resized_from_a_grid(tmp_path: Path) -> None:
    module = Patches()
    path = _exported(module, _floats("image", 1, 3, 32, 48), tmp_path, (16, 96), (16, 96))
    sizes = ((16, 16), (32, 32), (39, 64), (96, 17), (96, 96))
    every = [_floats("image", 1, 3, *size) for size in sizes]
    _compare(module, path, ["image:1,3,16..96,16..96"], tmp_path, every)


@pytest.mark.slow
def test_spectra_of_any_length(tmp_path: Path) -> None:
    module = Spectra()
    path = _exported(module, _floats("spectra", 2, 10, 24), tmp_path, (1, 4), (8, 80))
    every = [_floats("spectra", b, 10, n) for b, n in ((1, 8), (4, 80), (2, 33), (3, 64))]
    _compare(module, path, ["spectra:1..4,10,8..80"], tmp_path, every)
