"""The model zoo: the networks that tvm-ios is measured on, built as ONNX models.

Weights are seeded and He-scaled, batch norms are non-trivial, so that outputs vary with the
input and between classes; the topologies are the published ones.
"""

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
    """

    name: str
    summary: str
    input_shapes: Mapping[str, tuple[int, ...]]


_BUILDERS: dict[str, tuple[Callable[[int], Any], Description]] = {}


def _register(
    builder: str,
    name: str,
    shapes: int | Mapping[str, tuple[int, ...]],
    summary: str,
    *arguments: int,
) -> None:
    """Enter a network; a number stands for one square image of that size, ``"input"``.

    ``builder`` names a file here and its function of ``arguments`` and a seed: a network's file
    is imported when it is built, because importing all of them takes half a second.
    """
    if isinstance(shapes, int):
        shapes = {"input": (1, 3, shapes, shapes)}
    build = partial(_build, builder, *arguments)
    _BUILDERS[name] = (build, Description(name, summary, MappingProxyType(dict(shapes))))


def _build(builder: str, *arguments: int) -> Any:
    file, _, function = builder.partition(":")
    return getattr(import_module(f"tvm_ios.zoo.{file}"), function)(*arguments)


_register(
    "inception_v3:build_inception_v3", "inception_v3", 299, "Inception V3 (Szegedy et al., 2016)"
)
_register(
    "squeezenet:build_squeezenet", "squeezenet", 224, "SqueezeNet 1.0 with complex bypass (2016)"
)
_register(
    "nasnet_a:build_nasnet_a", "nasnet_a", 331, "NASNet-A large, 6 @ 4032 (Zoph et al., 2018)"
)
_register(
    "randwire:build_randwire",
    "randwire",
    224,
    "RandWire, WS(4, 0.75), regular regime (Xie et al., 2019)",
)
_register("resnet50:build_resnet50", "resnet50", 224, "ResNet-50 v1.5 (He et al., 2016)")
_register(
    "resnext29:build_resnext29", "resnext29", 32, "ResNeXt-29, 16x64d, for CIFAR (Xie et al., 2017)"
)
_register(
    "nasnet_a:build_nasnet_a_cifar", "nasnet_a_cifar", 32, "NASNet-A for CIFAR, 6 @ 768 (2018)"
)
_register("densenet121:build_densenet121", "densenet121", 224, "DenseNet-121 (Huang et al., 2017)")
_register(
    "mobilenet_v2:build_mobilenet_v2", "mobilenet_v2", 224, "MobileNet V2 (Sandler et al., 2018)"
)
_register(
    "mobilenet_v3:build_mobilenet_v3",
    "mobilenet_v3",
    224,
    "MobileNet V3, large (Howard et al., 2019)",
)
_register(
    "efficientnet_b0:build_efficientnet_b0",
    "efficientnet_b0",
    224,
    "EfficientNet-B0 (Tan and Le, 2019)",
)
_register(
    "shufflenet_v2:build_shufflenet_v2", "shufflenet_v2", 224, "ShuffleNet V2, 1x (Ma et al., 2018)"
)
_register("unet:build_unet", "unet", 128, "U-Net, an eighth as wide (Ronneberger et al., 2015)")
_register(
    "lstm:build_lstm_tc",
    "lstm_tc",
    {"input": (100, 1, 256)},
    "LSTM-TC, 10 layers, 100 steps (Rammer)",
)
_register(
    "transformer:build_transformer",
    "transformer",
    {"tokens": (1, 64)},
    "a transformer encoder, 4 layers of width 256 (Vaswani et al., 2017)",
)
_register(
    "nasnet_a:build_nasnet_a_mobile", "nasnet_a_mobile", 224, "NASNet-A mobile, 4 @ 1056 (2018)"
)
_register(
    "amoebanet_a:build_amoebanet_a", "amoebanet_a", 224, "AmoebaNet-A (4, 50) (Real et al., 2019)"
)
_register(
    "amoebanet_a:build_amoebanet_a_cifar", "amoebanet_a_cifar", 32, "AmoebaNet-A for CIFAR (6, 36)"
)
_register("darts:build_darts", "darts", 224, "DARTS, second order (Liu et al., 2019)")
_register("darts:build_darts_cifar", "darts_cifar", 32, "DARTS for CIFAR, 20 cells of 36 channels")
for _variant in (1, 2, 3):
    _register(
        "randwire:build_randwire_small",
        f"randwire_small_{_variant}",
        224,
        "RandWire, WS(4, 0.75), small regime (2019)",
        _variant,
    )
_register(
    "hrnet:build_hrnet_w18_small_v1",
    "hrnet_w18_small_v1",
    224,
    "HRNet-W18 small, v1 (Wang et al., 2020)",
)
_register("hrnet:build_hrnet_w18_small_v2", "hrnet_w18_small_v2", 224, "HRNet-W18 small, v2 (2020)")
_register("hrnet:build_hrnet_w32", "hrnet_w32", 224, "HRNet-W32 (2020)")
_register(
    "transformer:build_bert_small",
    "bert_small",
    {"tokens": (1, 128)},
    "BERT-Small's encoder, 4 layers of width 512 (Turc et al., 2019)",
)
_register("vit_tiny:build_vit_tiny", "vit_tiny", 224, "ViT-Tiny/16 (Dosovitskiy et al., 2021)")
_register(
    "dlrm:build_dlrm",
    "dlrm",
    {"dense": (1, 13), "embeddings": (1, 26, 128)},
    "DLRM's MLPs and interaction, MLPerf's sizes (Naumov et al., 2019)",
)
_register(
    "inception_block:build_inception_block",
    "inception_block",
    19,
    "one small Inception block, for tests",
)
_register(
    "nasnet_a:build_nasnet_cell", "nasnet_cell", 32, "two small NASNet-A normal cells, for tests"
)
_register("lstm:build_lstm_small", "lstm_small", {"input": (6, 1, 16)}, "a small LSTM, for tests")
_register(
    "transformer:build_transformer_small",
    "transformer_small",
    {"tokens": (1, 12)},
    "a small encoder, for tests",
)
_register(
    "ports:build_two_inputs",
    "two_inputs",
    {"input": (1, 3, 16, 16), "detail": (1, 1, 32, 32)},
    "two images joined, for tests",
)
_register("ports:build_several_outputs", "several_outputs", 16, "three outputs, for tests")


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
