"""Published counts for networks of the zoo, and tolerances for the zoo's own counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Trainable numbers; multiplications that are added up; schedulable units; or the layers whose
#: weights are multiplied: convolutions, or products of matrices.
Quantity = Literal["parameters", "multiply-adds", "units", "convolutions", "products"]


@dataclass(frozen=True, slots=True)
class PublishedCount:
    """A published number about a network of the zoo.

    ``within`` is the tolerated relative difference: 0 where the exact number is known, half of the
    last digit where it was rounded, more where ``note`` says why. ``source`` is the publication and
    its table or section.
    """

    network: str
    quantity: Quantity
    value: int
    within: float
    source: str
    note: str = ""


_RAMMER = "Ma et al., OSDI 2020, table 1"
_IOS = "Ding et al., MLSys 2021, table 2"
_AMOEBANET = "Real et al., 2019, table 2"
_KERAS = "keras-applications, trainable parameters"
_TORCHVISION = "torchvision"
_HRNET = "HRNet-Image-Classification, table of models"

PUBLISHED = (
    PublishedCount("inception_v3", "parameters", 23_834_568, 0, _TORCHVISION),
    PublishedCount("inception_v3", "units", 119, 0.01, _IOS, "the classifier is a unit here"),
    PublishedCount("squeezenet", "units", 50, 0, _IOS),
    PublishedCount("nasnet_a", "units", 374, 0, _IOS),
    PublishedCount("randwire", "units", 120, 0, _IOS),
    PublishedCount("randwire", "parameters", 61_500_000, 0.03, "Xie et al., 2019, table 3"),
    PublishedCount("resnet34", "parameters", 21_797_672, 0, _TORCHVISION),
    PublishedCount("resnet50", "parameters", 25_557_032, 0, _TORCHVISION),
    PublishedCount("vgg16", "parameters", 138_357_544, 0, _TORCHVISION),
    PublishedCount("densenet121", "parameters", 7_978_856, 0, _TORCHVISION),
    PublishedCount("mobilenet_v2", "parameters", 3_504_872, 0, _TORCHVISION),
    PublishedCount("mobilenet_v3", "parameters", 5_483_032, 0, _TORCHVISION),
    PublishedCount("efficientnet_b0", "parameters", 5_288_548, 0, _TORCHVISION),
    PublishedCount("shufflenet_v2", "parameters", 2_278_604, 0, _TORCHVISION),
    PublishedCount("nasnet_a", "parameters", 88_753_150, 0, _KERAS),
    PublishedCount("nasnet_a_mobile", "parameters", 5_289_978, 0, _KERAS),
    PublishedCount(
        "nasnet_a_mobile", "multiply-adds", 564_000_000, 1e-3, "Zoph et al., 2018, table 2"
    ),
    PublishedCount("nasnet_a_cifar", "parameters", 3_300_000, 0.016, "Zoph et al., 2018, table 1"),
    PublishedCount("amoebanet_a", "parameters", 5_100_000, 0.01, _AMOEBANET),
    PublishedCount("amoebanet_a", "multiply-adds", 555_000_000, 1e-3, _AMOEBANET),
    PublishedCount(
        "amoebanet_a_cifar", "parameters", 3_200_000, 0.016, "Liu et al., 2019, table 1"
    ),
    PublishedCount("darts", "parameters", 4_718_752, 0, "quark0/darts, printed by its test"),
    PublishedCount("darts_cifar", "parameters", 3_349_342, 0, "quark0/darts, printed by its test"),
    PublishedCount("hrnet_w18_small_v1", "parameters", 13_190_000, 1e-3, _HRNET),
    PublishedCount("hrnet_w18_small_v2", "parameters", 15_600_000, 1e-3, _HRNET),
    PublishedCount("hrnet_w32", "parameters", 41_230_000, 1e-3, _HRNET),
    PublishedCount("randwire_small_1", "parameters", 5_600_000, 0.03, "Xie et al., 2019, table 2"),
    PublishedCount("resnext29", "parameters", 68_100_000, 2e-3, "Xie et al., 2017, table 7"),
    PublishedCount(
        "resnext29_branches",
        "convolutions",
        1 + 9 * (16 * 2 + 1),
        0,
        f"{_RAMMER}: 29 layers, cardinality 16, bottleneck width 64d",
    ),
    PublishedCount(
        "resnext101_branches",
        "convolutions",
        1 + 33 * (64 * 2 + 1) + 4,
        0,
        "Ma et al., OSDI 2020, section 5.2: 101 layers, cardinality 64, width 4d",
        "the four shortcuts that change channels are convolutions too",
    ),
    PublishedCount(
        "resnext101_branches",
        "parameters",
        83_455_272,
        2e-5,
        f"{_TORCHVISION}, resnext101_64x4d",
        "the dense layer of Rammer's has no bias",
    ),
    PublishedCount(
        "alexnet",
        "parameters",
        60_000_000,
        0.04,
        f"{_RAMMER}; Krizhevsky et al., 2012, abstract",
        "one column and not two, whose third to fifth convolutions have 384, 384 and 256 channels",
    ),
    PublishedCount(
        "lstm_tc_gates",
        "products",
        10 * 100 * 8,
        0,
        f"{_RAMMER}: input length 100, hidden size 256, 10 layers",
    ),
    PublishedCount(
        "deepspeech2",
        "products",
        7 * 75 + 1,
        0,
        f"{_RAMMER}: input length 300, 2 CNN layers, 7 layers of uni-LSTM, hidden size 256",
    ),
    PublishedCount(
        "seq2seq",
        "products",
        8 * 100 + 4 * 30,
        0,
        f"{_RAMMER}: encoder of 8 layers, input length 100; decoder of 4, output length 30",
    ),
    *(
        PublishedCount(
            f"bert_{tokens}",
            "parameters",
            108_893_186,
            0,
            "transformers, BertForQuestionAnswering of bert-base-uncased",
        )
        for tokens in (128, 256, 384, 512)
    ),
    PublishedCount("vit_tiny", "parameters", 5_717_416, 0, "timm, vit_tiny_patch16_224"),
    PublishedCount("vit_base", "parameters", 86_567_656, 0, f"{_TORCHVISION}, vit_b_16"),
    PublishedCount(
        "conformer",
        "parameters",
        10_300_000,
        0.16,
        "Gulati et al., 2020, table 1, Conformer (S)",
        "the publication counts the decoder as well, an LSTM of 320 units",
    ),
)
