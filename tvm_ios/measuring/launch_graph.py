"""A GPU program as a graph of launches that wait for each other: all that its time depends on."""

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
    """A buffer whose address is passed to kernels."""

    #: Unique in its graph.
    name: str
    #: Its shape and element type.
    type: BufferType
    #: Whether it is an input, an output, a constant, an intermediate or scratch.
    role: Role
    #: Its content before a run. None if the numbers do not matter; integers are then zeros.
    content: Array | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """A launch of a kernel, whose parameters are all addresses of buffers."""

    #: The unit that it computes: the names of the model's operators, joined by ``+``.
    unit: str
    #: Its code, a key of :attr:`LaunchGraph.code`.
    code: str
    #: The name of its ``__global__`` function.
    entry: str
    #: Blocks of the grid, and threads of a block, in three dimensions.
    grid: Extents
    block: Extents
    #: Bytes of dynamic shared memory of a block.
    shared_bytes: int
    #: Its buffers, as indices into :attr:`LaunchGraph.buffers`.
    arguments: tuple[int, ...]
    #: Positions in ``arguments`` of the buffers that are set to zero before each launch. A kernel
    #: that has any is persistent: its blocks wait for each other, so all of them have to run at
    #: once.
    cleared: tuple[int, ...]
    #: Launches that must end before this one begins, as indices into :attr:`LaunchGraph.launches`.
    #: All are earlier ones. Those that follow from the waits of others may be left out.
    waits: tuple[int, ...]
    #: Registers and bytes of local memory of a thread, and shared memory of a block that the code
    #: declares; of PTX those of its architecture's machine code.
    registers: int = 0
    local_bytes: int = 0
    static_shared_bytes: int = 0

    @property
    def blocks(self) -> int:
        """The number of blocks of the grid."""
        return prod(self.grid)

    @property
    def threads(self) -> int:
        """The number of threads of a block."""
        return prod(self.block)

    @property
    def persistent(self) -> bool:
        """Whether its blocks wait for each other."""
        return bool(self.cleared)

    @property
    def key(self) -> str:
        """A digest, equal for launches of equal code with equal grid, block and shared memory."""
        return _digest([self.code, self.entry, self.grid, self.block, self.shared_bytes])


@dataclass(frozen=True)
class LaunchGraph:
    """A graph of kernel launches, with their code and buffers, that a timing device times."""

    #: The architecture of the code: ``"sm_70"`` is machine code, ``"compute_70"`` is PTX text.
    arch: str
    #: The code of kernels, by its SHA-256.
    code: Mapping[str, bytes]
    #: All buffers; none share memory.
    buffers: tuple[GraphBuffer, ...]
    #: The launches, in an order in which one stream could run them.
    launches: tuple[KernelLaunch, ...]
    #: The model and policy, if this is a whole program; empty if it is a part that a search times.
    model: str = ""
    policy: str = ""

    @cached_property
    def digest(self) -> str:
        """A digest, equal for graphs of equal code and waits, whatever their model and policy.

        It covers integer contents, such as the steps of persistent kernels, because they decide
        what runs; it does not cover the values of weights.
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
