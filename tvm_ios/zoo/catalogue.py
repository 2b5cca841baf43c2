"""What networks there are: a line for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any

#: Those that papers about the memory of orders measure.
MEMORY_NETWORKS = (
    "nasnet_a_mobile",
    "nasnet_a_cifar",
    "amoebanet_a",
    "amoebanet_a_cifar",
    "darts",
    "darts_cifar",
    "randwire_small_1",
    "randwire_small_2",
    "randwire_small_3",
    "hrnet_w18_small_v1",
    "hrnet_w18_small_v2",
    "hrnet_w32",
)


@dataclass(frozen=True, slots=True)
class Description:
    """What a zoo network is.

    Attributes
    ----------
    name
        How people ask for it.
    summary
        One line: the network and where its topology is from.
    input_shapes
        Extents of each input by name, in order; images are NCHW.
    units, blocks
        Of its graph of units under the default rules, and those that this graph is cut into:
        written down, so that listing the networks builds none.
    """

    name: str
    summary: str
    input_shapes: Mapping[str, tuple[int, ...]]
    units: int
    blocks: int


NETWORKS: dict[str, tuple[Callable[[int], Any], Description]] = {}


def _enter(
    file: str,
    name: str,
    shapes: int | Mapping[str, tuple[int, ...]],
    sizes: tuple[int, int],
    summary: str,
) -> None:
    """Enter a network, which the function ``build_NAME`` of a file of the zoo makes for a seed.

    A number for ``shapes`` stands for one square image of that size, ``"input"``; ``sizes`` are
    units and blocks. The file is imported when the network is built, because importing all of
    them takes half a second.
    """
    if isinstance(shapes, int):
        shapes = {"input": (1, 3, shapes, shapes)}
    description = Description(name, summary, MappingProxyType(dict(shapes)), *sizes)
    NETWORKS[name] = (partial(_build, file, name), description)


def _build(file: str, name: str, seed: int) -> Any:
    return getattr(import_module(f"tvm_ios.zoo.{file}"), f"build_{name}")(seed)


_enter("images.inception_v3", "inception_v3", 299, (120, 13), "Inception V3 (Szegedy et al., 2016)")
_enter(
    "images.squeezenet", "squeezenet", 224, (50, 12), "SqueezeNet 1.0 with complex bypass (2016)"
)
_enter("cells.nasnet_a", "nasnet_a", 331, (374, 24), "NASNet-A large, 6 @ 4032 (Zoph et al., 2018)")
_enter(
    "cells.randwire",
    "randwire",
    224,
    (120, 6),
    "RandWire, WS(4, 0.75), regular regime (Xie et al., 2019)",
)
_enter("images.resnet50", "resnet50", 224, (56, 18), "ResNet-50 v1.5 (He et al., 2016)")
_enter(
    "images.resnext29",
    "resnext29",
    32,
    (33, 11),
    "ResNeXt-29, 16x64d, for CIFAR (Xie et al., 2017)",
)
_enter("cells.nasnet_a", "nasnet_a_cifar", 32, (333, 22), "NASNet-A for CIFAR, 6 @ 768 (2018)")
_enter("images.densenet121", "densenet121", 224, (184, 19), "DenseNet-121 (Huang et al., 2017)")
_enter("images.mobilenet_v2", "mobilenet_v2", 224, (54, 16), "MobileNet V2 (Sandler et al., 2018)")
_enter(
    "images.mobilenet_v3",
    "mobilenet_v3",
    224,
    (81, 23),
    "MobileNet V3, large (Howard et al., 2019)",
)
_enter(
    "images.efficientnet_b0",
    "efficientnet_b0",
    224,
    (115, 29),
    "EfficientNet-B0 (Tan and Le, 2019)",
)
_enter(
    "images.shufflenet_v2", "shufflenet_v2", 224, (56, 18), "ShuffleNet V2, 1x (Ma et al., 2018)"
)
_enter("images.unet", "unet", 128, (31, 3), "U-Net, an eighth as wide (Ronneberger et al., 2015)")
_enter(
    "sequences.lstm",
    "lstm_tc",
    {"input": (100, 1, 256)},
    (1991, 206),
    "LSTM-TC, 10 layers, 100 steps (Rammer)",
)
_enter(
    "sequences.transformer",
    "transformer",
    {"tokens": (1, 64)},
    (44, 10),
    "a transformer encoder, 4 layers of width 256 (Vaswani et al., 2017)",
)
_enter("cells.nasnet_a", "nasnet_a_mobile", 224, (278, 18), "NASNet-A mobile, 4 @ 1056 (2018)")
_enter(
    "cells.amoebanet_a", "amoebanet_a", 224, (275, 18), "AmoebaNet-A (4, 50) (Real et al., 2019)"
)
_enter("cells.amoebanet_a", "amoebanet_a_cifar", 32, (331, 22), "AmoebaNet-A for CIFAR (6, 36)")
_enter("cells.darts", "darts", 224, (227, 18), "DARTS, second order (Liu et al., 2019)")
_enter("cells.darts", "darts_cifar", 32, (295, 22), "DARTS for CIFAR, 20 cells of 36 channels")
_enter(
    "cells.randwire",
    "randwire_small_1",
    224,
    (104, 5),
    "RandWire, WS(4, 0.75), small regime (2019)",
)
_enter(
    "cells.randwire",
    "randwire_small_2",
    224,
    (104, 6),
    "RandWire, WS(4, 0.75), small regime (2019)",
)
_enter(
    "cells.randwire",
    "randwire_small_3",
    224,
    (104, 6),
    "RandWire, WS(4, 0.75), small regime (2019)",
)
_enter(
    "images.hrnet", "hrnet_w18_small_v1", 224, (114, 15), "HRNet-W18 small, v1 (Wang et al., 2020)"
)
_enter("images.hrnet", "hrnet_w18_small_v2", 224, (209, 26), "HRNet-W18 small, v2 (2020)")
_enter("images.hrnet", "hrnet_w32", 224, (386, 38), "HRNet-W32 (2020)")
_enter(
    "sequences.transformer",
    "bert_small",
    {"tokens": (1, 128)},
    (44, 17),
    "BERT-Small's encoder, 4 layers of width 512 (Turc et al., 2019)",
)
_enter("sequences.vit_tiny", "vit_tiny", 224, (124, 26), "ViT-Tiny/16 (Dosovitskiy et al., 2021)")
_enter(
    "sequences.dlrm",
    "dlrm",
    {"dense": (1, 13), "embeddings": (1, 26, 128)},
    (14, 2),
    "DLRM's MLPs and interaction, MLPerf's sizes (Naumov et al., 2019)",
)
_enter(
    "small.inception_block", "inception_block", 19, (17, 3), "one small Inception block, for tests"
)
_enter("cells.nasnet_a", "nasnet_cell", 32, (36, 4), "two small NASNet-A normal cells, for tests")
_enter("sequences.lstm", "lstm_small", {"input": (6, 1, 16)}, (23, 2), "a small LSTM, for tests")
_enter(
    "sequences.transformer",
    "transformer_small",
    {"tokens": (1, 12)},
    (24, 6),
    "a small encoder, for tests",
)
_enter(
    "small.ports",
    "two_inputs",
    {"input": (1, 3, 16, 16), "detail": (1, 1, 32, 32)},
    (7, 3),
    "two images joined, for tests",
)
_enter("small.ports", "several_outputs", 16, (7, 2), "three outputs, for tests")
