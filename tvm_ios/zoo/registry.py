"""The registry of the zoo's networks, which describes them without building them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class Description:
    """A description of a zoo network.

    ``summary`` is one line: the network and where its topology is from. ``input_shapes`` are by
    name, in order; images are NCHW. ``units`` and ``blocks`` count those of its graph under the
    default rules; they are written down so that listing the networks builds none.
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
    """Register a network that ``build_NAME`` of a file of the zoo builds for a seed.

    A number for ``shapes`` stands for one square image of that size, ``"input"``; ``sizes`` are
    units and blocks. The file is imported when the network is built, because importing all of them
    takes half a second.
    """
    if isinstance(shapes, int):
        shapes = {"input": (1, 3, shapes, shapes)}
    description = Description(name, summary, MappingProxyType(dict(shapes)), *sizes)
    NETWORKS[name] = (partial(_build, file, name), description)


def _build(file: str, name: str, seed: int) -> Any:
    return getattr(import_module(f"tvm_ios.zoo.{file}"), f"build_{name}")(seed)
