"""Machine code of fused kernels, compiled once for all processes that share a folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from runtime_ext.cuda.machine_code.nvrtc import Cubin, compile_cubin, compiler_version
from tvm_ios.files.atomic import write_atomically
from tvm_ios.files.json_text import json_object, natural

_FIGURES = ("registers", "local_bytes", "static_shared_bytes")


class CubinCache:
    """A folder of cubins.

    Parameters
    ----------
    folder
        Made when something is compiled.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def cubin(self, source: str, arch: str, entry: str) -> Cubin:
        """Compile a source, or find it compiled.

        Parameters
        ----------
        source, arch
            As for :func:`runtime_ext.cuda.machine_code.nvrtc.compile_cubin`.
        entry
            Names the source: equal ones for equal sources and architectures only.
        """
        by = hashlib.sha256(compiler_version().encode()).hexdigest()[:8]
        path = self._folder / f"{entry}-{by}.cubin"
        if (found := _read(path)) is not None:
            return found
        made = compile_cubin(source, arch)
        figures = {name: getattr(made, name) for name in _FIGURES}
        line = json.dumps({**figures, "nbytes": len(made.code)}).encode() + b"\n"
        write_atomically(path, line + made.code)
        return made


def _read(path: Path) -> Cubin | None:
    """What a file holds; None if it is not there or not whole, and is to be made again."""
    try:
        line, _, code = path.read_bytes().partition(b"\n")
        facts = json_object(line)
        found = Cubin(code, *(natural(facts[name]) for name in _FIGURES))
        return found if len(code) == facts["nbytes"] else None
    except (OSError, KeyError, ValueError):
        return None
