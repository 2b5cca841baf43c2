"""Kernels in a form that can be sent: a shared library, or object files that the receiver links."""

from __future__ import annotations

import hashlib
import io
import platform
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from runtime_ext.cpu.linker import find_cross_linker, link
from tvm_ios.files.atomic import temporary_folder


@dataclass(frozen=True)
class KernelLibrary:
    """The machine code of some kernels.

    ``content`` has the bytes of a shared library if ``linked``, or of a tar of object files.
    """

    content: bytes
    linked: bool

    @cached_property
    def name(self) -> str:
        """A file name made of the content's hash, so that equal libraries are sent once."""
        suffix = "so" if self.linked else "tar"
        return f"kernels-{hashlib.sha256(self.content).hexdigest()}.{suffix}"


def libraries_for(machine: str) -> Callable[[Sequence[Path]], Callable[[str], KernelLibrary]]:
    """Return a function by which :class:`KernelCompiler` opens object files for another machine.

    It maps each symbol to the library that has it. ``machine`` is as in ``uname -m``.
    """

    def opened(objects: Sequence[Path]) -> Callable[[str], KernelLibrary]:
        library = kernel_library(objects, machine, platform.machine())
        return lambda symbol: library

    return opened


def kernel_library(objects: Sequence[Path], machine: str, here: str) -> KernelLibrary:
    """Make a library of object files for a machine; leave it unlinked without a linker for it.

    ``machine`` is the one that the code is for, and ``here`` this one, as in ``uname -m``. Raises
    UserError if linking fails.
    """
    linker = None if machine == here else find_cross_linker(machine)
    if machine != here and linker is None:
        return KernelLibrary(_tar(objects), linked=False)
    with temporary_folder() as folder:
        path = folder / "kernels.so"
        link(path, objects, command=linker)
        return KernelLibrary(path.read_bytes(), linked=True)


def _tar(objects: Sequence[Path]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path in objects:
            # Without owners and times, so that equal kernels are equal bytes.
            entry = tarfile.TarInfo(path.name)
            entry.size = path.stat().st_size
            with path.open("rb") as file:
                archive.addfile(entry, file)
    return stream.getvalue()
