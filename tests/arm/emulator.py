"""Kernels for 64-bit Arm, called here: QEMU runs their machine code in a process of its own."""

from __future__ import annotations

import atexit
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
import tvm_ffi.libinfo

from runtime_ext.cpu.linker import link
from tests.cpp_compiler import run

#: Debian's packages gcc-aarch64-linux-gnu, g++-aarch64-linux-gnu and qemu-user have all of them.
COMPILER, QEMU = "aarch64-linux-gnu-gcc", "qemu-aarch64"
SYSTEM = Path("/usr/aarch64-linux-gnu")
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}

#: The tests that this marks are skipped where there is no compiler for Arm, or no emulator.
needs_emulator = pytest.mark.skipif(
    not (shutil.which(COMPILER) and shutil.which(QEMU)),
    reason="needs g++-aarch64-linux-gnu and qemu-user",
)


class Emulator:
    """A process that runs kernels as a processor of Arm's does that has every feature.

    If a kernel ends it, the next call starts another one.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tvm-ios-arm-"))
        atexit.register(shutil.rmtree, self._folder)
        self._libraries = 0
        self._program = self._folder / "call_kernels"
        source = Path(__file__).with_name("call_kernels.c")
        headers = [f"-isystem{folder}" for folder in tvm_ffi.libinfo.include_paths()]
        run([COMPILER, "-O1", *headers, str(source), "-rdynamic", "-o", str(self._program)])
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [QEMU, "-cpu", "max", "-L", str(SYSTEM), str(self._program)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        atexit.register(process.kill)
        return process

    def open(self, objects: Sequence[Path]) -> Callable[[str], Callable[..., None]]:
        """Link object files, and return the lookup of their functions, as a compiler wants it."""
        self._libraries += 1
        path = self._folder / f"kernels-{self._libraries}.so"
        link(path, objects, command=(COMPILER,))
        return lambda symbol: lambda *arguments: self._call(path, symbol, arguments)

    def _call(self, path: Path, symbol: str, arguments: Sequence[Any]) -> None:
        if self._process.poll() is not None:
            self._process = self._start()
        tensors = [a for a in arguments if not isinstance(a, int)]
        integers = arguments[len(tensors) :]
        arrays = [np.asarray(tensor.numpy(), order="C") for tensor in tensors]
        parts = [_text(str(path)), _text(f"__tvm_ffi_{symbol}"), _numbers(len(arrays))]
        for array in arrays:
            kind, bits = _CODES[array.dtype.kind], 8 * array.dtype.itemsize
            parts += [_numbers(kind, bits, array.ndim, *array.shape), array.tobytes()]
        _pipe(self._process.stdin).write(
            b"".join([*parts, _numbers(len(integers), *map(int, integers))])
        )
        _pipe(self._process.stdin).flush()
        for tensor, array in zip(tensors, arrays, strict=True):
            data = _pipe(self._process.stdout).read(array.nbytes)
            if len(data) < array.nbytes:
                code = self._process.wait()
                raise AssertionError(f"{symbol} ended the emulated process with {code}")
            tensor.copyfrom(np.frombuffer(data, array.dtype).reshape(array.shape))


@cache
def emulator() -> Emulator:
    """The one process of all tests that run one after another."""
    return Emulator()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def _text(text: str) -> bytes:
    return _numbers(len(text.encode())) + text.encode()
