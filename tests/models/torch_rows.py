"""Modules of torch by family, each of which must be read as what torch computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

F = nn.functional
Row = Callable[..., Any]


def _written(x: Any) -> Any:
    y = x.clone()
    y[:, 1:3, 2] = 5.0
    y[0] = y[1]
    y[:, :, torch.tensor([1, 4])] = 0.0
    return y


#: Of one tensor of integers or booleans; a Python number is a scalar, not a tensor of its type.
PROMOTED: dict[str, Row] = {
    "times half": lambda x: x * 0.5,
    "half": lambda x: x / 2,
    "divided": lambda x: x / 2.5,
    "from a half": lambda x: 1.5 - x,
    "compared, times": lambda x: (x > 2) * 0.5,
    "range": lambda x: torch.arange(6) + 0.5 + x,
    "root": lambda x: x**0.5,
    "plus one": lambda x: x + 1,
    "plus a wider": lambda x: x + torch.arange(6),
    "plus a float": lambda x: x + torch.arange(6.0),
    "plus a scalar tensor": lambda x: x + torch.tensor(1.5),
    "above": lambda x: x > 0.5,
    "equal": lambda x: x == 1,
    "chosen": lambda x: torch.where(x > 1, x, 0.5),
    "joined": lambda x: torch.cat([x, x * 0.3]),
    "sum": lambda x: x.sum(),
    "sine": lambda x: x.sin(),
    "quotient": lambda x: x / (x + torch.ones_like(x)),
}

#: Of a tensor of int64 with negative numbers besides.
INTEGERS: dict[str, Row] = {
    "power": lambda x: x**2,
    "power of two": lambda x: 2.0**x,
    "floor": lambda x: (x // 2, x // -2, torch.div(x, 2.5, rounding_mode="floor")),
    "truncated": lambda x: torch.div(x, 3, rounding_mode="trunc"),
    "remainder": lambda x: (x % 3, x % -3, torch.fmod(x, 3)),
    "clamp": lambda x: (x.clamp(0.5, 2.5), x.clamp(-0.5, 2)),
    "bits": lambda x: (~x, x & 3, x | 4, x ^ 5),
    "filled": lambda x: x.masked_fill(x > 2, 7),
    "running sum": lambda x: x.cumsum(0),
    "extremes": lambda x: (x.max(), x.argmax(), x.sign(), x.abs()),
}

BOOLEANS: dict[str, Row] = {
    "equal": lambda x, y: (x == y, x != y),
    "less": lambda x, y: x < y,
    "sum": lambda x, y: (x + y, x * y),
    "logic": lambda x, y: (x & y, x | y, x ^ y, ~x),
    "any": lambda x, y: (x.any(), y.all(), x.any(0)),
    "count": lambda x, y: (x.sum(), (x * 2.5).sum()),
}

#: Of numbers among which are NaN, both infinities and both zeros.
EDGES: dict[str, Row] = {
    "classes": lambda x: (x.isfinite(), x.isnan(), x.isinf(), x != x),
    "signs": lambda x: (x.sign(), x.signbit(), torch.copysign(torch.ones(16), x)),
    "activations": lambda x: (x.relu(), x.sigmoid(), x.tanh(), F.relu6(x), F.hardtanh(x)),
    "clamp": lambda x: (x.clamp(-0.5, 0.7), x.clamp(-0.5, 1)),
    "clamps": lambda x: (
        F.relu6(F.hardtanh(x)),
        F.hardtanh(x.clamp(-0.5, 0.7)),
        F.relu6(F.relu6(x)),
    ),
    "rounded": lambda x: (x.floor(), x.ceil(), x.round(), x.trunc()),
    "quotients": lambda x: (x // 0.1, x // -x.flip(0), torch.div(x, -0.3, rounding_mode="floor")),
    "remainders": lambda x: (x % 0.1, x % -x.flip(0), x % -0.3),
    "extremes": lambda x: (torch.maximum(x, -x), torch.fmin(x, -x.flip(0))),
    "replaced": lambda x: x.nan_to_num(1.0, 2.0, 3.0),
}

#: Of a tensor of float64, with numbers that float32 has not.
DOUBLES: dict[str, Row] = {
    "arithmetic": lambda x: (x * 0.1, x + 0.1, 0.1 - x, x / 0.1, 0.1 / x, x % 0.1, x // 0.1),
    "scaled": lambda x: (torch.add(x, x, alpha=0.1), torch.sub(x, x, alpha=0.1)),
    "products": lambda x: torch.addcmul(x, x, x, value=0.1),
    "bounds": lambda x: (x.clamp(-0.1, 0.7), F.threshold(x, 0.1, 0.3), torch.where(x > 0, x, 0.1)),
    "filled": lambda x: (x.masked_fill(x > 0, 0.1), x.index_fill(0, torch.tensor([1]), 0.1)),
    "full": lambda x: (
        torch.full((6,), 0.1, dtype=x.dtype),
        torch.full_like(x, 0.1),
        x.new_full((6,), 0.1),
    ),
    "range": lambda x: (
        torch.arange(0.1, 0.7, 0.1, dtype=x.dtype),
        torch.arange(0.1, 3, dtype=x.dtype),
    ),
    "power": lambda x: (0.1**x, x.abs() ** 0.1, torch.linalg.vector_norm(x, 0.3)),
}

ACTIVATIONS: dict[str, Row] = {
    name: module
    for name, module in {
        "elu": nn.ELU(0.7),
        "celu": nn.CELU(0.7),
        "selu": nn.SELU(),
        "gelu": nn.GELU(),
        "gelu by tanh": nn.GELU("tanh"),
        "silu": nn.SiLU(),
        "mish": nn.Mish(),
        "softplus": nn.Softplus(2, 3),
        "softsign": nn.Softsign(),
        "softshrink": nn.Softshrink(0.3),
        "hardshrink": nn.Hardshrink(0.4),
        "tanhshrink": nn.Tanhshrink(),
        "hardsigmoid": nn.Hardsigmoid(),
        "hardswish": nn.Hardswish(),
        "leaky": nn.LeakyReLU(0.2),
        "prelu": nn.PReLU(4),
        "glu": nn.GLU(1),
        "threshold": nn.Threshold(0.2, 5.0),
        "log sigmoid": nn.LogSigmoid(),
        "log softmax": nn.LogSoftmax(1),
        "dropout": nn.Dropout(),
    }.items()
}

NORMS: dict[str, Row] = {
    "batch": nn.BatchNorm2d(4),
    "instance": nn.InstanceNorm2d(4, affine=True),
    "group": nn.GroupNorm(2, 4),
    "group without weights": nn.GroupNorm(2, 4, affine=False),
    "group without bias": lambda x: F.group_norm(x, 2, torch.ones(4) * 2),
    "layer": nn.LayerNorm([7, 9]),
    "layer without weights": nn.LayerNorm(9, elementwise_affine=False),
    "layer without bias": nn.LayerNorm(9, bias=False),
    "root mean square": nn.RMSNorm(9),
    "local response": nn.LocalResponseNorm(3),
    "vector": lambda x: (x.norm(), x.norm(p=1, dim=1), torch.linalg.vector_norm(x, 3, (2, 3))),
    "largest": lambda x: torch.linalg.vector_norm(x, float("inf"), dim=1),
    "normalised": lambda x: F.normalize(x, dim=1),
    "deviation": lambda x: (x.std(), x.std((2, 3)), x.std(1, unbiased=False)),
    "variance": lambda x: (x.var(1, keepdim=True), x.var((2, 3), correction=2)),
    "both": lambda x: torch.var_mean(x, 1),
    "distances": lambda x: (torch.cdist(x[0], x[1]), F.cosine_similarity(x[0], x[1], dim=0)),
}

POOLS: dict[str, Row] = {
    "largest": nn.MaxPool2d(3, 2, 1),
    "largest, ceiling": nn.MaxPool2d(2, ceil_mode=True),
    "where": nn.MaxPool2d(2, return_indices=True),
    "mean": nn.AvgPool2d(3, 2, 1, count_include_pad=False),
    "mean, ceiling": nn.AvgPool2d(3, 2, 1, ceil_mode=True),
    "divisor": nn.AvgPool2d(2, divisor_override=3),
    "divisor, ceiling": nn.AvgPool2d(3, 2, 1, ceil_mode=True, divisor_override=4),
    "power": nn.LPPool2d(2, 2),
    "whole": nn.AdaptiveAvgPool2d(1),
    "even": nn.AdaptiveAvgPool2d((7, 3)),
    "uneven": nn.AdaptiveAvgPool2d((3, 5)),
    "uneven largest": nn.AdaptiveMaxPool2d((3, 5), return_indices=True),
    "volume": lambda x: F.adaptive_avg_pool3d(x[None], (3, 2, 4)),
    "line": lambda x: (F.adaptive_avg_pool1d(x[0], 4), F.adaptive_max_pool1d(x[0], 4)),
}

RESIZED: dict[str, Row] = {
    "nearest": nn.Upsample(scale_factor=2),
    "nearest by fractions": nn.Upsample(scale_factor=0.6),
    "nearest exact": lambda x: F.interpolate(x, size=(5, 4), mode="nearest-exact"),
    "linear": nn.Upsample(scale_factor=2, mode="bilinear"),
    "linear, corners": nn.Upsample(size=(10, 11), mode="bilinear", align_corners=True),
    "cubic": nn.Upsample(scale_factor=1.5, mode="bicubic"),
    "area": lambda x: F.interpolate(x, size=(3, 4), mode="area"),
    "shuffled": nn.PixelShuffle(2),
    "unfolded": nn.Unfold(3, padding=1, stride=2),
    "folded": lambda x: F.fold(F.unfold(x, 2), (7, 9), 2),
    "windows": lambda x: x.unfold(2, 3, 2),
    "reflected": nn.ReflectionPad2d((1, 2, 3, 1)),
    "replicated": nn.ReplicationPad2d((1, 2, 3, 1)),
    "wrapped": nn.CircularPad2d((1, 2, 3, 1)),
    "cut": nn.ZeroPad2d((-1, 2, 3, -1)),
    "grid": lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), align_corners=False),
    "affine": lambda x: F.affine_grid(x[:, 0, :2, :3], (2, 4, 5, 6), align_corners=False),
}

#: Of a tensor and indices of its last axis, fewer than it has elements.
SCATTERED: dict[str, Row] = {
    "gather": lambda x, k: x.gather(3, k),
    "scatter": lambda x, k: x.scatter(3, k[..., :1], x),
    "value": lambda x, k: x.scatter(3, k, 2.5),
    "add": lambda x, k: torch.zeros(2, 4, 7, 9).scatter_add(3, k, x),
    "reduced": lambda x, k: x.scatter_reduce(3, k, x * 2, "amax"),
    "product": lambda x, k: x.scatter_reduce(3, k, x[..., :3], "prod", include_self=False),
    "mean": lambda x, k: x.scatter_reduce(3, k, x[..., :3], "mean"),
    "mean of others": lambda x, k: x.scatter_reduce(3, k, x[..., :3], "mean", include_self=False),
    "mean of integers": lambda x, k: (
        (x * 9).int().scatter_reduce(3, k, (x[..., :3] * -9).int(), "mean")
    ),
    "index add": lambda x, k: x.index_add(2, k[0, 0, :, 0] % 7, x, alpha=0.5),
    "index copy": lambda x, k: x.index_copy(2, torch.tensor([3, 1]), x[:, :, :2] * 2),
    "index fill": lambda x, k: x.index_fill(2, k[0, 0, :, 0] % 7, 3.0),
    "index put": lambda x, k: x.index_put((k[0, 0, 0] % 2, k[0, 0, 1] % 4), torch.tensor(1.5)),
    "accumulated": lambda x, k: x.index_put(
        (k[0, 0, 0] % 2, k[0, 0, 1] % 4), torch.ones(7, 9), accumulate=True
    ),
    "written": lambda x, k: _written(x),
    "masked": lambda x, k: x.index_put((x > 0.5,), torch.tensor(-1.0)),
    "rows masked": lambda x, k: x.index_put((x[..., 0] > 0.5,), torch.tensor(2.0), True),
    "from the end": lambda x, k: (x[:, -1], x[..., -k[0, 0, 0]]),
    "pairs": lambda x, k: (x[:, :, k[0, 0, 0] % 7, k[0, 0, 1]], x[:, k[0, 0, 0] % 4, :, 1]),
    "embedded": lambda x, k: F.embedding(k, x[0, 0].T),
}

REDUCED: dict[str, Row] = {
    "largest": lambda x: (x.amax((2, 3)), x.amin(1, keepdim=True), *torch.aminmax(x, dim=1)),
    "largest and where": lambda x: tuple(x.max(1)),
    "where": lambda x: (x.argmax(1), x.argmin(-1, keepdim=True), x.argmax()),
    "sums": lambda x: (x.sum((1, 2)), x.prod(1), x.mean((0, 2), keepdim=True)),
    "running": lambda x: (x.cumsum(1), x.cumprod(2)),
    "exponentials": lambda x: x.logsumexp(1),
    "ordered": lambda x: (*x.topk(3, 1), *x.sort(2, descending=True), x.argsort(1)),
    "median": lambda x: (*x.median(3), *x.kthvalue(2, 3)),
    "between": lambda x: torch.searchsorted(torch.tensor([-1.0, 0, 1]), x),
    "arithmetic": lambda x: (torch.lerp(x, x * 2, 0.3), torch.addcmul(x, x, x, value=0.5)),
    "rounding": lambda x: (torch.remainder(x, 0.7), torch.fmod(x, 0.7), x // 0.7),
    "windows": lambda x: torch.hann_window(9) + torch.hamming_window(9) + x,
    "products": lambda x: (torch.einsum("bchw,bdhw->bcd", x, x), x @ x.transpose(2, 3)),
    "diagonal": lambda x: (x.tril(1), torch.diagonal(x, 1, 2, 3), torch.diag_embed(x[0, 0])),
    "moved": lambda x: (x.flip((1, 3)), x.roll((1, -2), (2, 3)), x.repeat_interleave(2, 1)),
    "split": lambda x: (*x.split([1, 3], 1), *x.chunk(3, 3)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "unscaled": lambda x: F.scaled_dot_product_attention(x, x, x, scale=0.0),
    "masked": lambda x: F.scaled_dot_product_attention(x, x, x, x[0, 0, :, :7] > 0.2),
}


class Anchors(nn.Module):
    """A constant that is read and returned, as the heads of detectors do."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("anchors", torch.arange(9.0))

    def forward(self, x: Any) -> Any:
        return x * self.anchors, self.anchors


RETURNED: dict[str, Row] = {
    "constant": Anchors(),
    "input": lambda x: (x, x + 1),
    "twice": lambda x: [x * 2] * 2,
    "nothing": lambda x: (x, None),
    "half": lambda x: x.half() * 2,
    "double": lambda x: x.double() * 2,
    "integer": lambda x: (x * 10).int(),
}


class Bags(nn.Module):
    """Bags of rows of a table."""

    def __init__(self) -> None:
        super().__init__()
        for mode in ("mean", "sum", "max"):
            self.add_module(mode, nn.EmbeddingBag(9, 5, mode=mode))

    def forward(self, k: Any) -> Any:
        return tuple(bag(k[0, 0]) for bag in self.children())


BAGS: dict[str, Row] = {"bags": Bags()}
