"""A program for a GPU as launches that wait for each other: all that its time depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.program.program import BufferType, Role

#: Blocks of a grid, or threads of a block, along x, y and z.
Extents = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class GraphBuffer:
    """Memory that kernels are given the address of.

    Attributes
    ----------
    name
        Unique in its graph.
    type
        Shape and type of what lies there.
    role
        What it is for.
    content
        What it holds before a run; None where any numbers do, of integers zeros.
    """

    name: str
    type: BufferType
    role: Role
    content: Array | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """A launch of a kernel, whose parameters are all addresses of buffers.

    Attributes
    ----------
    unit
        Whose work it is: the names of the model's operators, joined by ``+``.
    code
        Its code, a key of :attr:`LaunchGraph.code`.
    entry
        The name of its ``__global__`` function.
    grid, block
        Blocks of the grid, and threads of a block.
    shared_bytes
        Dynamic shared memory of a block.
    arguments
        Its buffers, as places in :attr:`LaunchGraph.buffers`.
    cleared
        Which of the arguments are set to zero before each launch. A kernel that has any is
        persistent: its blocks wait for each other, so all of them have to run at once.
    waits
        Launches that end before this one begins, as places in :attr:`LaunchGraph.launches`, all
        of them earlier ones; those that these have waited for may be left out.
    """

    unit: str
    code: str
    entry: str
    grid: Extents
    block: Extents
    shared_bytes: int
    arguments: tuple[int, ...]
    cleared: tuple[int, ...]
    waits: tuple[int, ...]

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return prod(self.grid)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return prod(self.block)

    @property
    def persistent(self) -> bool:
        """Whether its blocks wait for each other."""
        return bool(self.cleared)

    @property
    def key(self) -> str:
        """Equal for launches of equal code on equally many blocks and threads."""
        return _digest([self.code, self.entry, self.grid, self.block, self.shared_bytes])


@dataclass(frozen=True)
class LaunchGraph:
    """What a timing device times.

    Attributes
    ----------
    arch
        What the code is for: ``"sm_70"`` has machine code, ``"compute_70"`` PTX, a text.
    code
        By the SHA-256 of each.
    buffers
        All memory; each buffer has its own.
    launches
        In an order in which one stream could run them.
    model, policy
        Whose whole program it is; empty where it is a part of one that a search asks for.
    """

    arch: str
    code: Mapping[str, bytes]
    buffers: tuple[GraphBuffer, ...]
    launches: tuple[KernelLaunch, ...]
    model: str = ""
    policy: str = ""

    @cached_property
    def digest(self) -> str:
        """Equal for graphs of equal code and waits, whatever model and policy they are of.

        Of contents those of whole numbers count, such as the steps of persistent kernels: they say
        what is run, and weights do not.
        """
        buffers = [
            [b.type.shape, b.type.dtype, b.role, _content_key(b.content)] for b in self.buffers
        ]
        launches = [
            [launch.key, launch.arguments, launch.cleared, launch.waits] for launch in self.launches
        ]
        return _digest([self.arch, buffers, launches])


def _content_key(content: Array | None) -> str:
    if content is None or content.dtype.kind not in "iu":
        return ""
    return hashlib.sha256(np.ascontiguousarray(content).tobytes()).hexdigest()


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()
