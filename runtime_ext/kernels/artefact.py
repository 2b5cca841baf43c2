"""A compiled kernel on disk: an object file and a description, found by their key."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Counts up whenever the code of equal kernels changes.
SCHEDULE_VERSION = 3
#: How kernels are called: buffers, begin, end.
CONVENTION = "tiles-1"


@dataclass(frozen=True, slots=True)
class KernelPhase:
    """A function of a kernel.

    ``arguments`` count the kernel's buffers and then its scratch.
    """

    symbol: str
    tiles: int
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Artefact:
    """What is known of a compiled kernel.

    Attributes
    ----------
    key
        Names the kernel.
    phases
        Its functions, in the order in which they run.
    scratch
        (shape, dtype) of the buffers that it needs while it runs.
    source
        ``"default"`` or ``"log"``.
    """

    key: str
    phases: tuple[KernelPhase, ...]
    scratch: tuple[tuple[tuple[int, ...], str], ...]
    source: str


def kernel_key(workload: str, target: str, schedule: str = "default") -> str:
    """The name of a kernel: what it computes, for which target, by which schedule."""
    import tvm

    text = "\n".join(
        [workload, target, schedule, str(SCHEDULE_VERSION), CONVENTION, tvm.__version__]
    )
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class ArtefactCache:
    """A folder of artefacts that several processes may share."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def object_file(self, key: str) -> Path:
        """Where the object file of a kernel lies."""
        return self.folder / f"{key}.o"

    def find(self, key: str) -> Artefact | None:
        """The artefact of a key; None if it is missing or damaged."""
        try:
            data = json.loads((self.folder / f"{key}.json").read_text())
            content = self.object_file(key).read_bytes()
            if data["key"] != key or data["sha256"] != hashlib.sha256(content).hexdigest():
                return None
            return Artefact(
                key=key,
                phases=tuple(KernelPhase(s, int(t), tuple(a)) for s, t, a in data["phases"]),
                scratch=tuple((tuple(shape), dtype) for shape, dtype in data["scratch"]),
                source=data["source"],
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def add(self, artefact: Artefact, library: Any) -> None:
        """Write a compiled module's object file, then the description that makes it count."""
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="new-") as folder:
            made = Path(folder) / "kernel.o"
            library.write_to_file(str(made), "o")
            data = {
                "key": artefact.key,
                "phases": [[p.symbol, p.tiles, p.arguments] for p in artefact.phases],
                "scratch": artefact.scratch,
                "source": artefact.source,
                "sha256": hashlib.sha256(made.read_bytes()).hexdigest(),
            }
            text = Path(folder) / "kernel.json"
            text.write_text(json.dumps(data))
            made.rename(self.object_file(artefact.key))
            text.rename(self.folder / f"{artefact.key}.json")
