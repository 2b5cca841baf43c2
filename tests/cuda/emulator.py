"""Run the CUDA C++ of kernels on the CPU, thread by thread, to know what it computes.

Every launch runs twice, with threads and blocks in opposite orders: a missing barrier or a race
between blocks gives other bits. Buffers lie between guards: reading beyond one gives no number,
writing there is found.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from runtime_ext.cuda.machine_code.kernel import CudaKernel
from runtime_ext.cuda.machine_code.launchable import Launchable
from runtime_ext.cuda.machine_code.prelude import PRELUDE
from tests.cpp_compiler import compiler
from tvm_ios.files.array_files import Array

_HEADER = Path(__file__).with_name("emulator.h")
#: Elements before and after each buffer; keeps what it surrounds aligned to 64 bytes.
_GUARD = 1024


class Emulator:
    """Kernels compiled for the CPU."""

    def __init__(self, kernels: Iterable[CudaKernel], folder: Path) -> None:
        unique = {kernel.entry: kernel for kernel in kernels}
        text = "\n".join([f'#include "{_HEADER}"', *map(_for_cpu, unique.values())])
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        source, library = folder / f"{name}.cc", folder / f"{name}.so"
        source.write_text(text)
        command = [compiler(), "-std=c++17", "-O1", "-w", "-ffp-contract=off", "-fpermissive"]
        command += ["-shared", "-fPIC", "-o", str(library), str(source)]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        assert completed.returncode == 0, completed.stderr[:3000]
        self._library = ctypes.CDLL(str(library))

    def launch(self, kernel: CudaKernel, buffers: Sequence[Array]) -> None:
        """Run a kernel; what it writes is in the buffers then."""
        for buffer, wanted in zip(buffers, kernel.parameters, strict=True):
            assert buffer.nbytes == wanted.nbytes
            assert str(buffer.dtype) == wanted.dtype
        runs: list[list[Array]] = []
        for order in (0, 1):
            guarded = [_Guarded(buffer, number) for number, buffer in enumerate(buffers)]
            addresses = (ctypes.c_void_p * len(buffers))(*(g.address for g in guarded))
            extents = [(ctypes.c_int * 3)(*extent) for extent in (kernel.grid, kernel.block)]
            go = getattr(self._library, f"run_{kernel.entry}")
            assert go(addresses, *extents, order), f"{kernel.entry} waits for ever at a barrier"
            for i, (memory, buffer) in enumerate(zip(guarded, buffers, strict=True)):
                assert memory.is_whole(), f"{kernel.entry} writes beyond buffer {i}"
                if i not in kernel.written:
                    assert memory.inside.tobytes() == buffer.tobytes(), "writes what it only reads"
            runs.append([memory.inside.copy() for memory in guarded])
        for i, (first, second) in enumerate(zip(*runs, strict=True)):
            assert first.tobytes() == second.tobytes(), f"{kernel.entry} races on buffer {i}"
        for buffer, memory in zip(buffers, runs[0], strict=True):
            buffer[...] = memory.reshape(buffer.shape)


def for_stand_in(kernels: Mapping[str, CudaKernel], room: Path) -> dict[str, Launchable]:
    """Kernels, by symbol, as the stand-in driver takes them; ``room`` is a folder for files."""
    source, library = room / "kernels.cc", room / "kernels.so"
    different = {kernel.entry: kernel for kernel in kernels.values()}.values()
    text = [f'#include "{_HEADER}"', *map(_for_cpu, different)]
    for kernel in different:
        block = ", ".join(map(str, kernel.block))
        text.append(
            f"""
extern "C" int {kernel.entry}_emulated_parameters = {len(kernel.parameters)};
extern "C" int {kernel.entry}_emulated_waits = 1;
extern "C" int {kernel.entry}_emulated(void** buffers, const unsigned* grid) {{
  const int extents[] = {{(int)grid[0], (int)grid[1], (int)grid[2]}}, block[] = {{{block}}};
  return run_{kernel.entry}(buffers, extents, block, 0) ? 0 : 1;
}}"""
        )
    source.write_text("\n".join(text))
    command = [compiler(), "-std=c++17", "-O1", "-w", "-fpermissive", "-shared", "-fPIC"]
    built = subprocess.run(
        [*command, "-o", str(library), str(source)], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr[:3000]
    code = library.read_bytes()
    return {
        symbol: Launchable(
            f"{k.entry}_emulated",
            k.grid,
            k.block,
            k.dynamic_shared_bytes,
            code,
            early=k.early,
        )
        for symbol, k in kernels.items()
    }


class _Guarded:
    def __init__(self, buffer: Array, number: int) -> None:
        fill = _fill(buffer.dtype, number)
        size = buffer.size + 2 * _GUARD
        room = np.empty(size * buffer.itemsize + 64, np.uint8)
        begin = -room.ctypes.data % 64
        self._whole = room[begin : begin + size * buffer.itemsize].view(buffer.dtype)
        self._whole[...] = fill
        self.inside = self._whole[_GUARD : _GUARD + buffer.size]
        self.inside[...] = buffer.reshape(-1)
        self._fill = np.full(_GUARD, fill, buffer.dtype).tobytes()
        self.address = self.inside.ctypes.data

    def is_whole(self) -> bool:
        ends = (self._whole[:_GUARD], self._whole[-_GUARD:])
        return all(end.tobytes() == self._fill for end in ends)


def _fill(dtype: np.dtype[Any], number: int) -> Any:
    """A value for each buffer: what is read beyond one and stored beyond another is seen."""
    if dtype.kind != "f":
        return 77 - number
    bits = np.dtype(f"u{dtype.itemsize}")
    return (np.array(np.nan, dtype).view(bits) + bits.type(1 + number)).view(dtype)


def _for_cpu(kernel: CudaKernel) -> str:
    """The kernel, and a function that runs it on given addresses."""
    assert kernel.source.startswith(PRELUDE)
    code = re.sub(r"__shared__ (alignas\(\d+\) )?", r"\1static ", kernel.source[len(PRELUDE) :])
    # Nothing is copied behind a thread's back here, so there is nothing to wait for.
    code = re.sub(r'asm volatile\("cp\.async\.(commit|wait)_group.*\);', "", code)
    count = len(kernel.parameters)
    signature = re.search(rf"{kernel.entry}\(([^()]*)\) \{{", code)
    assert signature is not None
    types = [p.rsplit(" ", 1)[0].replace("__restrict__", "") for p in signature.group(1).split(",")]
    given = ", ".join(f"({kind})at[{i}]" for i, kind in enumerate(types))
    assert len(types) == count
    return f"""{code}
namespace {kernel.entry}_run {{
static void** at;
static void body() {{ {kernel.entry}({given}); }}
}}
extern "C" int run_{kernel.entry}(void** buffers, const int* grid, const int* block, int order) {{
  {kernel.entry}_run::at = buffers;
  return emulator::Launch({kernel.entry}_run::body, grid, block, order);
}}
"""
