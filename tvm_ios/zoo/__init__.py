"""The model zoo: the networks that tvm-ios is measured on, built as ONNX models.

Weights are seeded and He-scaled, batch norms are non-trivial, so that outputs vary with the
input and between classes; the topologies are the published ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from tvm_ios.zoo.amoebanet_a import build_amoebanet_a, build_amoebanet_a_cifar
from tvm_ios.zoo.darts import build_darts, build_darts_cifar
from tvm_ios.zoo.densenet121 import build_densenet121
from tvm_ios.zoo.dlrm import build_dlrm
from tvm_ios.zoo.efficientnet_b0 import build_efficientnet_b0
from tvm_ios.zoo.hrnet import build_hrnet_w18_small_v1, build_hrnet_w18_small_v2, build_hrnet_w32
from tvm_ios.zoo.inception_block import build_inception_block
from tvm_ios.zoo.inception_v3 import build_inception_v3
from tvm_ios.zoo.lstm import build_lstm_small, build_lstm_tc
from tvm_ios.zoo.mobilenet_v2 import build_mobilenet_v2
from tvm_ios.zoo.mobilenet_v3 import build_mobilenet_v3
from tvm_ios.zoo.nasnet_a import (
    build_nasnet_a,
    build_nasnet_a_cifar,
    build_nasnet_a_mobile,
    build_nasnet_cell,
)
from tvm_ios.zoo.ports import build_several_outputs, build_two_inputs
from tvm_ios.zoo.randwire import build_randwire, build_randwire_small
from tvm_ios.zoo.resnet50 import build_resnet50
from tvm_ios.zoo.resnext29 import build_resnext29
from tvm_ios.zoo.shufflenet_v2 import build_shufflenet_v2
from tvm_ios.zoo.squeezenet import build_squeezenet
from tvm_ios.zoo.transformer import build_bert_small, build_transformer, build_transformer_small
from tvm_ios.zoo.unet import build_unet
from tvm_ios.zoo.vit_tiny import build_vit_tiny

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
    """

    name: str
    summary: str
    input_shapes: Mapping[str, tuple[int, ...]]


_BUILDERS: dict[str, tuple[Callable[[int], Any], Description]] = {}


def _register(
    build: Callable[[int], Any],
    name: str,
    shapes: int | Mapping[str, tuple[int, ...]],
    summary: str,
) -> None:
    """Enter a network; a number stands for one square image of that size, ``"input"``."""
    if isinstance(shapes, int):
        shapes = {"input": (1, 3, shapes, shapes)}
    _BUILDERS[name] = (build, Description(name, summary, MappingProxyType(dict(shapes))))


_register(build_inception_v3, "inception_v3", 299, "Inception V3 (Szegedy et al., 2016)")
_register(build_squeezenet, "squeezenet", 224, "SqueezeNet 1.0 with complex bypass (2016)")
_register(build_nasnet_a, "nasnet_a", 331, "NASNet-A large, 6 @ 4032 (Zoph et al., 2018)")
_register(
    build_randwire, "randwire", 224, "RandWire, WS(4, 0.75), regular regime (Xie et al., 2019)"
)
_register(build_resnet50, "resnet50", 224, "ResNet-50 v1.5 (He et al., 2016)")
_register(build_resnext29, "resnext29", 32, "ResNeXt-29, 16x64d, for CIFAR (Xie et al., 2017)")
_register(build_nasnet_a_cifar, "nasnet_a_cifar", 32, "NASNet-A for CIFAR, 6 @ 768 (2018)")
_register(build_densenet121, "densenet121", 224, "DenseNet-121 (Huang et al., 2017)")
_register(build_mobilenet_v2, "mobilenet_v2", 224, "MobileNet V2 (Sandler et al., 2018)")
_register(build_mobilenet_v3, "mobilenet_v3", 224, "MobileNet V3, large (Howard et al., 2019)")
_register(build_efficientnet_b0, "efficientnet_b0", 224, "EfficientNet-B0 (Tan and Le, 2019)")
_register(build_shufflenet_v2, "shufflenet_v2", 224, "ShuffleNet V2, 1x (Ma et al., 2018)")
_register(build_unet, "unet", 128, "U-Net, an eighth as wide (Ronneberger et al., 2015)")
_register(
    build_lstm_tc, "lstm_tc", {"input": (100, 1, 256)}, "LSTM-TC, 10 layers, 100 steps (Rammer)"
)
_register(
    build_transformer,
    "transformer",
    {"tokens": (1, 64)},
    "a transformer encoder, 4 layers of width 256 (Vaswani et al., 2017)",
)
_register(build_nasnet_a_mobile, "nasnet_a_mobile", 224, "NASNet-A mobile, 4 @ 1056 (2018)")
_register(build_amoebanet_a, "amoebanet_a", 224, "AmoebaNet-A (4, 50) (Real et al., 2019)")
_register(build_amoebanet_a_cifar, "amoebanet_a_cifar", 32, "AmoebaNet-A for CIFAR (6, 36)")
_register(build_darts, "darts", 224, "DARTS, second order (Liu et al., 2019)")
_register(build_darts_cifar, "darts_cifar", 32, "DARTS for CIFAR, 20 cells of 36 channels")
for _variant in (1, 2, 3):
    _register(
        partial(build_randwire_small, _variant),
        f"randwire_small_{_variant}",
        224,
        "RandWire, WS(4, 0.75), small regime (2019)",
    )
_register(
    build_hrnet_w18_small_v1, "hrnet_w18_small_v1", 224, "HRNet-W18 small, v1 (Wang et al., 2020)"
)
_register(build_hrnet_w18_small_v2, "hrnet_w18_small_v2", 224, "HRNet-W18 small, v2 (2020)")
_register(build_hrnet_w32, "hrnet_w32", 224, "HRNet-W32 (2020)")
_register(
    build_bert_small,
    "bert_small",
    {"tokens": (1, 128)},
    "BERT-Small's encoder, 4 layers of width 512 (Turc et al., 2019)",
)
_register(build_vit_tiny, "vit_tiny", 224, "ViT-Tiny/16 (Dosovitskiy et al., 2021)")
_register(
    build_dlrm,
    "dlrm",
    {"dense": (1, 13), "embeddings": (1, 26, 128)},
    "DLRM's MLPs and interaction, MLPerf's sizes (Naumov et al., 2019)",
)
_register(build_inception_block, "inception_block", 19, "one small Inception block, for tests")
_register(build_nasnet_cell, "nasnet_cell", 32, "two small NASNet-A normal cells, for tests")
_register(build_lstm_small, "lstm_small", {"input": (6, 1, 16)}, "a small LSTM, for tests")
_register(
    build_transformer_small, "transformer_small", {"tokens": (1, 12)}, "a small encoder, for tests"
)
_register(
    build_two_inputs,
    "two_inputs",
    {"input": (1, 3, 16, 16), "detail": (1, 1, 32, 32)},
    "two images joined, for tests",
)
_register(build_several_outputs, "several_outputs", 16, "three outputs, for tests")


def names() -> tuple[str, ...]:
    """The networks of the zoo."""
    return tuple(_BUILDERS)


def describe(name: str) -> Description:
    """What the network is.

    Raises
    ------
    KeyError
        If the zoo has no such network.
    """
    return _entry(name)[1]


def build(name: str, seed: int = 0) -> Any:
    """Build a network as an ``onnx.ModelProto``; the same seed gives the same bytes.

    Raises
    ------
    KeyError
        If the zoo has no such network.
    """
    return _entry(name)[0](seed)


def _entry(name: str) -> tuple[Callable[[int], Any], Description]:
    if name not in _BUILDERS:
        raise KeyError(f"the zoo has no network {name!r}; it has {', '.join(_BUILDERS)}")
    return _BUILDERS[name]
