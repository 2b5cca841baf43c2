"""How large the networks of the zoo are, so that listing them builds none; tests count again."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Size(NamedTuple):
    """The size of a network under the default rules.

    Attributes
    ----------
    units
        How many units its graph has.
    blocks
        How many blocks this graph is cut into.
    """

    units: int
    blocks: int


SIZES: Mapping[str, Size] = MappingProxyType(
    {
        "inception_v3": Size(120, 13),
        "squeezenet": Size(50, 12),
        "nasnet_a": Size(374, 24),
        "randwire": Size(120, 6),
        "resnet50": Size(56, 18),
        "resnext29": Size(33, 11),
        "nasnet_a_cifar": Size(333, 22),
        "densenet121": Size(184, 19),
        "mobilenet_v2": Size(54, 16),
        "mobilenet_v3": Size(81, 23),
        "efficientnet_b0": Size(115, 29),
        "shufflenet_v2": Size(56, 18),
        "unet": Size(31, 3),
        "lstm_tc": Size(1991, 206),
        "transformer": Size(44, 10),
        "nasnet_a_mobile": Size(278, 18),
        "amoebanet_a": Size(275, 18),
        "amoebanet_a_cifar": Size(331, 22),
        "darts": Size(227, 18),
        "darts_cifar": Size(295, 22),
        "randwire_small_1": Size(104, 5),
        "randwire_small_2": Size(104, 6),
        "randwire_small_3": Size(104, 6),
        "hrnet_w18_small_v1": Size(114, 15),
        "hrnet_w18_small_v2": Size(209, 26),
        "hrnet_w32": Size(386, 38),
        "bert_small": Size(44, 17),
        "vit_tiny": Size(124, 26),
        "dlrm": Size(14, 2),
        "inception_block": Size(17, 3),
        "nasnet_cell": Size(36, 4),
        "lstm_small": Size(23, 2),
        "transformer_small": Size(24, 6),
        "two_inputs": Size(7, 3),
        "several_outputs": Size(7, 2),
    }
)
