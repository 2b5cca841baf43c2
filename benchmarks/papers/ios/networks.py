"""The benchmarked networks, as the texts and as the zoo call them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ZOO: Mapping[str, str] = MappingProxyType(
    {
        "Inception V3": "inception_v3",
        "Randwire": "randwire",
        "NasNet": "nasnet_a",
        "SqueezeNet": "squeezenet",
    }
)
