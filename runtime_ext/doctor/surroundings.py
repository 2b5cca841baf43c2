"""Check the cache folder, and environment variables that change what tvm-ios does."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runtime_ext.doctor.check import Check, Status
from runtime_ext.machine.this_machine import available_lanes, cache_folder

_SCARCE = 1 << 30
_NUMBERS = ("TVM_NUM_THREADS", "OMP_NUM_THREADS")
_OTHERS = ("TVM_BIND_THREADS", "TVM_IOS_CACHE", "TVM_IOS_NATIVE_LIB", "CXX", "CC")


def check_cache() -> Iterator[Check]:
    """Check that the cache folder can be written, and report its size and the free space."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor.") as file:
            file.write(b"written")
            file.flush()
    except OSError as error:
        remedy = "set TVM_IOS_CACHE to a folder that you can write"
        detail = f"{folder} cannot be written: {error.strerror or error}"
        yield Check("cache", Status.PROBLEM, detail, remedy)
        return
    free = shutil.disk_usage(folder).free
    detail = f"{folder}: {_size(folder) / 1e6:.0f} MB kept, {free / 1e9:.1f} GB free"
    if free < _SCARCE:
        remedy = f"free some space, delete {folder}, or set TVM_IOS_CACHE to another disk"
        yield Check("cache", Status.WARNING, detail, remedy)
    else:
        yield Check("cache", Status.OK, detail)


def check_environment() -> Iterator[Check]:
    """Check the environment variables that are set."""
    for name in _NUMBERS:
        text = os.environ.get(name)
        if text is None:
            continue
        lanes = available_lanes()
        if not text.isdigit() or int(text) < 1:
            remedy = f"unset it, or set it to a number such as {lanes}"
            yield Check(name, Status.WARNING, f"is {text!r}, which is not a number", remedy)
        elif int(text) > lanes:
            remedy = f"unset it, or set it to {lanes}: more threads than CPUs wait for each other"
            yield Check(name, Status.WARNING, f"is {text}, more than the {lanes} lanes", remedy)
        else:
            yield Check(name, Status.OK, text)
    for name in _OTHERS:
        if text := os.environ.get(name):
            yield Check(name, Status.OK, text)


def _size(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_size
            except OSError:
                continue
    return total
