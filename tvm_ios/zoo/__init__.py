"""The model zoo: the networks that tvm-ios is measured on, built as ONNX models.

Weights are seeded and He-scaled, batch norms are non-trivial, so that outputs vary with the
input and between classes; the topologies are the published ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm_ios.zoo.catalogue import MEMORY_NETWORKS
from tvm_ios.zoo.registry import NETWORKS, Description

__all__ = ["MEMORY_NETWORKS", "Description", "build", "describe", "names"]


def names() -> tuple[str, ...]:
    """Return the names of the zoo's networks."""
    return tuple(NETWORKS)


def describe(name: str) -> Description:
    """Return the description of a network; raise KeyError if the zoo has no such network."""
    return _entry(name)[1]


def build(name: str, seed: int = 0) -> Any:
    """Build a network as an ``onnx.ModelProto``; the same seed gives the same bytes.

    Raise KeyError if the zoo has no such network.
    """
    return _entry(name)[0](seed)


def _entry(name: str) -> tuple[Callable[[int], Any], Description]:
    if name not in NETWORKS:
        raise KeyError(f"the zoo has no network {name!r}; it has {', '.join(NETWORKS)}")
    return NETWORKS[name]
