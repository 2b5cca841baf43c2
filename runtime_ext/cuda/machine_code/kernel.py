"""The description of a compiled CUDA kernel, apart from its machine code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from runtime_ext.cuda.machine_code.launchable import Launchable
from runtime_ext.cuda.machine_code.prelude import AWAIT_EARLIER
from tvm_ios.devices.occupancy import Footprint
from tvm_ios.program.program import BufferType

#: Threads, or blocks, along x, y and z.
LaunchExtents = tuple[int, int, int]


def grid_and_block(threads: Mapping[str, int]) -> tuple[LaunchExtents, LaunchExtents]:
    """Return the grid and block of thread axes such as ``"blockIdx.x"``; missing extents are 1."""

    def axes(which: str) -> LaunchExtents:
        x, y, z = (threads.get(f"{which}.{axis}", 1) for axis in "xyz")
        return x, y, z

    return axes("blockIdx"), axes("threadIdx")


@dataclass(frozen=True)
class CudaKernel:
    """A kernel that one launch runs whole; it allocates no memory."""

    #: Its name in programs; unique in a library.
    symbol: str
    #: The name of its ``__global__`` function, which takes the addresses of its buffers.
    entry: str
    #: Shapes and types of the buffers.
    parameters: tuple[BufferType, ...]
    #: Numbers of the parameters that it writes; it only reads the others.
    written: tuple[int, ...]

    grid: LaunchExtents
    block: LaunchExtents
    #: Shared memory of a block that the code declares, and that a launch has to request.
    static_shared_bytes: int
    dynamic_shared_bytes: int

    registers: int
    #: Local memory of a thread (spills and arrays).
    local_bytes: int
    #: Its CUDA C++.
    source: str
    #: The TIR function of this one kernel, bound to threads: its parameters are the buffers. None
    #: if the kernel was read from a file.
    scheduled: Any = None

    def __post_init__(self) -> None:
        if min(*self.grid, *self.block) < 1:
            raise ValueError(f"{self.grid} and {self.block} are no grid and block")

    @property
    def shared_bytes(self) -> int:
        """Static and dynamic shared memory of a block."""
        return self.static_shared_bytes + self.dynamic_shared_bytes

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def footprint(self) -> Footprint:
        """Threads, registers and shared memory of a block."""
        return Footprint(self.threads, self.registers, self.shared_bytes)

    @property
    def early(self) -> bool:
        """Whether it may be launched before the launches that it waits for have ended."""
        return AWAIT_EARLIER in self.source

    def launchable(self, code: bytes, cleared: tuple[int, ...] = ()) -> Launchable:
        """Return the kernel with its code, to launch; see :class:`Launchable`."""
        return Launchable(
            self.entry,
            self.grid,
            self.block,
            self.dynamic_shared_bytes,
            code,
            cleared,
            self.early,
            registers=self.registers,
            local_bytes=self.local_bytes,
            static_shared_bytes=self.static_shared_bytes,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the kernel without its TIR as JSON data, as ``read_as`` reads it."""
        fields = {name: value for name, value in vars(self).items() if name != "scheduled"}
        return {**fields, "parameters": [asdict(p) for p in self.parameters]}
