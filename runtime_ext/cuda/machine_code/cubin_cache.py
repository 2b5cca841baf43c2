"""A cache of fused kernels' machine code, for all processes that share a folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from runtime_ext.cuda.machine_code.nvrtc import Cubin, compile_cubin, compiler_version
from tvm_ios.files.atomic import write_atomically
from tvm_ios.files.json_text import json_object, natural

_FIGURES = ("registers", "local_bytes", "static_shared_bytes")


class CubinCache:
    """A folder of cubins, created when the first one is compiled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def cubin(self, source: str, arch: str, entry: str) -> Cubin:
        """Return the cubin of a source, compiled unless the folder has it.

        The key is the entry, so different sources or architectures need different entries.
        """
        compiler_digest = hashlib.sha256(compiler_version(arch).encode()).hexdigest()[:8]
        path = self._folder / f"{entry}-{compiler_digest}.cubin"
        if (cached := _read(path)) is not None:
            return cached
        cubin = compile_cubin(source, arch)
        figures = {name: getattr(cubin, name) for name in _FIGURES}
        line = json.dumps({**figures, "nbytes": len(cubin.code)}).encode() + b"\n"
        write_atomically(path, line + cubin.code)
        return cubin


def _read(path: Path) -> Cubin | None:
    """Read a cubin from a file; return None if the file is missing or incomplete."""
    try:
        line, _, code = path.read_bytes().partition(b"\n")
        facts = json_object(line)
        cubin = Cubin(code, *(natural(facts[name]) for name in _FIGURES))
        return cubin if len(code) == facts["nbytes"] else None
    except (OSError, KeyError, ValueError):
        return None
