"""Guarded memory finds what lies beyond the bytes that kernels may touch."""

from __future__ import annotations

import ctypes
import mmap
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.guarded_memory import GuardedMemory
from tvm_ios.program.program import ALIGNMENT, Buffer, BufferType, Program, Role


def _memory() -> GuardedMemory:
    """Return an input that ends near a guarded page, and an output that begins behind one."""
    ports = (("x", Role.INPUT), ("y", Role.OUTPUT))
    buffers = tuple(Buffer(name, BufferType((20,)), role) for name, role in ports)
    return GuardedMemory(Program(((),), (), buffers, ()), {}, None)


def touch(place: int, byte: int) -> None:
    """Read a byte, counted from the end of the first buffer, or from the begin of the second."""
    array = _memory().arrays[place]
    end = array.ctypes.data + (0 if place else array.nbytes)
    ctypes.string_at(end + byte, 1)


def test_kernels_may_read_as_far_as_a_vector() -> None:
    memory = _memory()
    memory.poison()
    x, y = memory.arrays
    assert (x.ctypes.data % ALIGNMENT, y.ctypes.data % mmap.PAGESIZE) == (0, 0)
    touch(0, ALIGNMENT - 1)
    assert np.isnan(memory.read("y")).all()
    memory.write("x", np.arange(20, dtype=np.float32))
    assert memory.read("x").tolist() == list(range(20))


# The end of the first buffer is rounded up to its alignment.
@pytest.mark.parametrize(("place", "byte"), [(0, 2 * ALIGNMENT), (1, -1)])
def test_what_reads_further_ends_the_process(place: int, byte: int) -> None:
    code = f"from tests.stress.test_guarded_memory import touch; touch({place}, {byte})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120)
    assert done.returncode == -signal.SIGSEGV


@pytest.mark.parametrize("place", [0, 1])
def test_what_writes_around_a_buffer_is_told(place: int) -> None:
    memory = _memory()
    array = memory.arrays[place]
    ctypes.memset(array.ctypes.data + array.nbytes, 0, 1)
    with pytest.raises(AssertionError, match="around a buffer of 80 B"):
        memory.read("x")
