"""The compiler of kernels that are loaded on other machines."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runtime_ext.cpu.compiler import KernelCompiler
from runtime_ext.fleet.kernel_library import KernelLibrary, kernel_library


class CrossCompiler(KernelCompiler):
    """As :class:`KernelCompiler`, but a symbol is the :class:`KernelLibrary` that has its code.

    Parameters
    ----------
    target, lanes, cache_dir, database
        As of :class:`KernelCompiler`.
    machine
        What the code is for, as uname says.
    """

    def __init__(
        self,
        target: Any,
        lanes: int,
        cache_dir: str | os.PathLike[str],
        database: Any | None = None,
        *,
        machine: str,
    ) -> None:
        super().__init__(target, lanes, cache_dir, database)
        self._machine = machine

    def _open(self, objects: Sequence[Path]) -> Callable[[str], KernelLibrary]:
        library = kernel_library(objects, self._machine, platform.machine())
        return lambda symbol: library
