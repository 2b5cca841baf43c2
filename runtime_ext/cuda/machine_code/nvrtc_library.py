"""Find every installed version of NVRTC, NVIDIA's compiler library, and call it in C."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from ctypes import byref, c_char, c_char_p, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError

#: Names for the loader, tried after the files of packages and of the toolkit.
_NAMES = ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2")


@dataclass(frozen=True)
class Compiled:
    """The results of NVRTC: machine code, PTX and log."""

    cubin: bytes
    ptx: bytes
    log: str


class CompileError(UserError):
    """NVRTC rejects a source; ``log`` is the compiler's log."""

    def __init__(self, log: str) -> None:
        super().__init__(log)
        self.log = log


class NvrtcLibrary:
    """One version of NVRTC, loaded from a path or by a name for the loader.

    Raise OSError or AttributeError if it does not load, or is too old to list the architectures
    that it compiles for (before 11.2).
    """

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        major, minor, count = c_int(), c_int(), c_int()
        self._call("nvrtcVersion", byref(major), byref(minor))
        self.version = major.value, minor.value
        self._call("nvrtcGetNumSupportedArchs", byref(count))
        archs = (c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", archs)
        #: The compute capabilities that it compiles for, such as 75.
        self.archs = tuple(archs)

    def compile(self, source: str, options: Sequence[str]) -> Compiled:
        """Compile CUDA C++ without includes; raise CompileError if NVRTC rejects it."""
        program = c_void_p()
        self._call(
            "nvrtcCreateProgram", byref(program), source.encode(), b"kernel.cu", 0, None, None
        )
        try:
            given = (c_char_p * len(options))(*(option.encode() for option in options))
            status = self._library.nvrtcCompileProgram(program, len(options), given)
            log = self._bytes("ProgramLog", program).rstrip(b"\0").decode(errors="replace")
            if status:
                raise CompileError(log)
            cubin, ptx = self._bytes("CUBIN", program), self._bytes("PTX", program)
            return Compiled(cubin, ptx, log)
        finally:
            self._library.nvrtcDestroyProgram(byref(program))

    def _bytes(self, what: str, program: c_void_p) -> bytes:
        size = c_size_t()
        self._call(f"nvrtcGet{what}Size", program, byref(size))
        content = (c_char * size.value)()
        self._call(f"nvrtcGet{what}", program, content)
        return content.raw

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            describe = self._library.nvrtcGetErrorString
            describe.restype, describe.argtypes = c_char_p, (c_int,)
            raise UserError(f"NVRTC: {name}: {describe(status).decode()}")


@cache
def nvrtc_libraries() -> tuple[NvrtcLibrary, ...]:
    """Return every version of NVRTC that is found, the newest first."""
    found: dict[tuple[int, int], NvrtcLibrary] = {}
    for path in dict.fromkeys(_paths()):
        try:
            library = NvrtcLibrary(path)
        except (OSError, AttributeError, UserError):
            # No such file, or a library that lacks something that it needs.
            continue
        found.setdefault(library.version, library)
    return tuple(found[version] for version in sorted(found, reverse=True))


def _paths() -> Iterator[str]:
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield from sorted(map(str, Path(folder).glob("*/lib/libnvrtc.so.*")))
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    yield from sorted(map(str, home.glob("lib64/libnvrtc.so.*")))
    yield from _NAMES
