"""The interface of a collection of kernels that can be fused into another kernel."""

from __future__ import annotations

from typing import Protocol

from runtime_ext.cuda.machine_code.launchable import Launchable
from runtime_ext.cuda.machine_code.nvrtc import Cubin
from runtime_ext.cuda.persistent.rtask_function import RTaskFunction
from tvm_ios.devices.occupancy import Footprint


class RTaskLibrary(Protocol):
    """Kernels by their symbols, as rTasks: of a compiler with TVM, or of a bundle."""

    def blocks(self, symbol: str) -> int:
        """Return the number of a kernel's rTasks: the blocks of its grid."""
        ...

    def footprint(self, symbol: str) -> Footprint:
        """Return the threads, registers and shared memory of a block of a kernel."""
        ...

    def rtasks(self, symbol: str) -> RTaskFunction:
        """Return a kernel as a ``__device__`` function of its rTasks.

        Raises
        ------
        UnfusedError
            If it cannot be one.
        """
        ...

    def cubin(self, source: str, arch: str, entry: str) -> Cubin:
        """Return the machine code of a fused kernel, whose name is a hash of its content.

        Raises
        ------
        UserError
            If there is neither the code nor a compiler, or the compiler rejects the source.
        """
        ...

    def add(self, symbol: str, kernel: Launchable) -> None:
        """Add a kernel that is fused of several units' kernels."""
        ...
