"""Kernels that can be put into another kernel: what fusing asks of whoever has them."""

from __future__ import annotations

from typing import Protocol

from runtime_ext.cuda.machine_code.launchable import Launchable
from runtime_ext.cuda.machine_code.nvrtc import Cubin
from runtime_ext.cuda.persistent.rtask_function import RTaskFunction
from tvm_ios.devices.occupancy import Footprint


class RTaskLibrary(Protocol):
    """Kernels by their symbols, as rTasks: of a compiler with TVM, or of a bundle."""

    def blocks(self, symbol: str) -> int:
        """How many rTasks a kernel has: the blocks of its grid."""
        ...

    def footprint(self, symbol: str) -> Footprint:
        """Threads, registers and shared memory of a block of a kernel by itself."""
        ...

    def rtasks(self, symbol: str) -> RTaskFunction:
        """A kernel as a ``__device__`` function of its rTasks.

        Raises
        ------
        UnfusedError
            If it cannot be one.
        """
        ...

    def cubin(self, source: str, arch: str, entry: str) -> Cubin:
        """The machine code of a kernel made of several, whose name tells its content.

        Raises
        ------
        UserError
            If there is neither the code nor a compiler, or the compiler refuses.
        """
        ...

    def add(self, symbol: str, kernel: Launchable) -> None:
        """Keep a kernel that was made of those of several units."""
        ...
