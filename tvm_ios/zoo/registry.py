"""How the zoo knows its networks without building them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any


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


def enter(
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
