"""CUDA kernels ready to launch, and files of them.

A file is in the safetensors format: each cubin once, as bytes under its SHA-256, and in the
metadata a JSON text that describes the kernels, and the library calls that replace some. It is read
without that package, which a machine that only runs kernels need not have.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from runtime_ext.kernels.library_convolution import LibraryConvolution
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import save_tensors
from tvm_ios.files.json_text import json_object, naturals
from tvm_ios.files.plain_data import read_as

_FORMAT = "tvm-ios cuda kernels"
_Extents = tuple[int, int, int]
#: The fields of a :class:`Launchable`, with the cubin's SHA-256 in its place.
_Facts = tuple[str, _Extents, _Extents, int, str, tuple[int, ...], bool]


@dataclass(frozen=True, slots=True)
class Launchable:
    """A compiled kernel whose parameters are all addresses of buffers."""

    #: Name of the ``__global__`` function.
    entry: str
    #: Blocks of the grid, threads of a block; three extents each.
    grid: _Extents
    block: _Extents
    #: Dynamic shared memory of a block.
    shared_bytes: int
    #: Machine code that has the function.
    cubin: bytes
    #: Positions of arguments whose buffers are set to zero before each launch, such as the counters
    #: by which blocks wait for each other.
    cleared: tuple[int, ...] = ()
    #: Whether it waits by itself until the launches before it have ended: it may be launched early.
    early: bool = False
    #: Registers and bytes of local memory of a thread, and shared memory of a block that the code
    #: declares, as the compiler said; zero if the kernel was read from a file.
    registers: int = field(default=0, compare=False)
    local_bytes: int = field(default=0, compare=False)
    static_shared_bytes: int = field(default=0, compare=False)

    @property
    def cooperative(self) -> bool:
        """Whether its blocks wait for each other, so that all of them have to run at once."""
        return bool(self.cleared)


#: The work of a program's launch: a kernel, or a call of a library on a stream.
LaunchedWork = Launchable | LibraryConvolution


def write_kernels(path: Path, arch: str, kernels: Mapping[str, LaunchedWork]) -> None:
    """Write kernels, by symbol, and the architecture that they were compiled for."""
    launchables = {symbol: k for symbol, k in kernels.items() if isinstance(k, Launchable)}
    cubins = {_key(k.cubin): np.frombuffer(k.cubin, np.uint8) for k in launchables.values()}
    facts = {
        symbol: [k.entry, k.grid, k.block, k.shared_bytes, _key(k.cubin), k.cleared]
        + [True] * k.early
        for symbol, k in launchables.items()
    }
    metadata: dict[str, Any] = {"format": _FORMAT, "version": 1, "arch": arch, "kernels": facts}
    calls = {s: asdict(k) for s, k in kernels.items() if isinstance(k, LibraryConvolution)}
    if calls:
        metadata["cudnn"] = calls
    save_tensors(cubins, path, {"kernels": json.dumps(metadata)})


def read_kernels(path: Path) -> tuple[str, dict[str, LaunchedWork]]:
    """Return the architecture and the kernels by symbol from a file of :func:`write_kernels`.

    A file whose name ends in ``.gz`` is decompressed. Raise UserError if it is damaged or something
    else.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        begin = 8 + int.from_bytes(content[:8], "little")
        header = json_object(content[8:begin])
        metadata = json_object(header["__metadata__"]["kernels"].encode())
        if (metadata["format"], metadata["version"]) != (_FORMAT, 1):
            raise UserError(f"{path} does not hold {_FORMAT} of version 1")
        calls: dict[str, LaunchedWork] = {
            symbol: read_as(LibraryConvolution, call)
            for symbol, call in metadata.get("cudnn", {}).items()
        }
        return str(metadata["arch"]), calls | {
            symbol: _launchable(facts, header, content[begin:])
            for symbol, facts in metadata["kernels"].items()
        }
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise UserError(f"{path} is damaged: {error}; save it again") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path} lacks or misstates {error}; save it again") from error


def _launchable(facts: object, header: Mapping[str, Any], data: bytes) -> Launchable:
    if isinstance(facts, list) and len(facts) == len(_Facts.__args__) - 1:
        # As files are that are older than early launches, too.
        facts = [*facts, False]
    entry, grid, block, shared_bytes, key, cleared, early = read_as(_Facts, facts)
    begin, end = naturals(header[key]["data_offsets"])
    cubin = data[begin:end]
    if _key(cubin) != key:
        raise ValueError(f"cubin {key[:12]}")
    return Launchable(entry, grid, block, shared_bytes, cubin, cleared, early)


def _key(cubin: bytes) -> str:
    return hashlib.sha256(cubin).hexdigest()
