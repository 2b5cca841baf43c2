"""Buffers between pages that cannot be touched, for kernels, which no sanitizer instruments."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from runtime_ext.execution import host_memory, open_program
from runtime_ext.execution.buffers import view
from runtime_ext.execution.host_memory import HostMemory
from tvm_ios.files.array_files import Array
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import ALIGNMENT, BufferType, Program

_C = ctypes.CDLL(None, use_errno=True)
#: What lies around buffers: NaN, and no index.
_FILLED = 0xFF


class GuardedMemory(HostMemory):
    """The buffers of a program, constants too, each between two pages that nothing may touch.

    A buffer ends as near to the second page as its alignment and the bytes that kernels may read
    behind it allow, or begins just behind the first one, in turn. A kernel that goes further ends
    the process, and one that writes nearer is told by :meth:`read`.
    """

    def __init__(
        self, program: Program, constants: Mapping[str, Array], plan: MemoryPlan | None
    ) -> None:
        del plan  # Buffers of an arena have no pages between them.
        #: For each buffer its pages, its first byte there, and its bytes.
        self._guarded: list[tuple[Array, int, int]] = []
        self._turn = itertools.count()

        def constant(array: Array) -> Array:
            copy = self._allocate(BufferType(array.shape, str(array.dtype)))
            np.copyto(copy, array)
            return copy

        with patch.multiple(host_memory, allocate=self._allocate, share_constant=constant):
            super().__init__(program, constants, None)

    def _allocate(self, buffer_type: BufferType) -> Array:
        nbytes, page = buffer_type.nbytes, mmap.PAGESIZE
        inner = -(-(nbytes + ALIGNMENT) // page) * page
        pages = np.frombuffer(mmap.mmap(-1, inner + 2 * page), np.uint8)
        for first in (0, page + inner):
            address = ctypes.c_void_p(pages.ctypes.data + first)
            if _C.mprotect(address, ctypes.c_size_t(page), 0):  # PROT_NONE
                raise OSError(ctypes.get_errno(), "mprotect")
        pages = pages[page : page + inner]
        pages.fill(_FILLED)
        last = (inner - ALIGNMENT - nbytes) // ALIGNMENT * ALIGNMENT
        first = (last, 0)[next(self._turn) % 2]
        self._guarded.append((pages, first, nbytes))
        pages[first : first + nbytes] = 0
        return view(pages, buffer_type, first)

    def poison(self) -> None:
        """Set all bits of outputs; those around buffers are set already."""
        with patch.object(host_memory, "slack", lambda block: np.empty(0, np.uint8)):
            super().poison()

    def read(self, name: str) -> Array:
        """Return a copy of a buffer's content; AssertionError if a kernel wrote around any."""
        for pages, first, nbytes in self._guarded:
            for around in (pages[:first], pages[first + nbytes :]):
                assert (around == _FILLED).all(), f"a kernel wrote around a buffer of {nbytes} B"
        return super().read(name)


@contextmanager
def guarded_memory() -> Iterator[None]:
    """Let programs have guarded memory; those of open dimensions by executors in Python."""
    guarded: Any = GuardedMemory
    with (
        patch.object(host_memory, "HostMemory", guarded),
        patch.object(open_program, "HostMemory", guarded),
    ):
        yield
