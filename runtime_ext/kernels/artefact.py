"""A compiled kernel on disk: its machine code and a description, found by their key."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError
from tvm_ios.files.atomic import make_folder, temporary_folder
from tvm_ios.files.json_text import json_object
from tvm_ios.files.plain_data import read_as
from tvm_ios.shapes.extent import symbols_in
from tvm_ios.shapes.extent_json import ExpressionReader, ExpressionTable

#: Increase it whenever the code of equal kernels changes.
SCHEDULE_VERSION = 35
#: The same of kernels of open extents alone.
_OPEN_VERSION = 5
#: How kernels are called: buffers, begin, end.
CONVENTION = "tiles-1"


@dataclass(frozen=True, slots=True)
class KernelPhase:
    """A function of a kernel; ``arguments`` index the kernel's buffers and then its scratch.

    ``scalars`` are the names of the symbols whose values it takes, between buffers and tiles.
    """

    symbol: str
    tiles: int
    arguments: tuple[int, ...]
    scalars: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Artefact:
    """The description of a compiled kernel."""

    #: Names the kernel.
    key: str
    #: Its functions, in the order in which they run.
    phases: tuple[KernelPhase, ...]
    #: (shape, dtype) of the buffers that it needs while it runs.
    scratch: tuple[tuple[tuple[int, ...], str], ...]


def workload_text(data: Any) -> str:
    """Return the text of a workload, for its key.

    Expressions name their symbols; code depends on the ranges of these, too.
    """
    symbols = symbols_in(data)
    return f"{data!r} {symbols!r} {_OPEN_VERSION}" if symbols else repr(data)


def kernel_key(workload: str, target: str) -> str:
    """Return the name of a kernel: a hash of its workload and target."""
    import tvm

    # "default" was once the name of a schedule: it keeps earlier keys valid.
    text = "\n".join(
        [workload, target, "default", str(SCHEDULE_VERSION), CONVENTION, tvm.__version__]
    )
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class ArtefactCache:
    """A folder of artefacts that several processes may share.

    ``suffix`` is that of files of machine code. Raise UserError if the folder cannot be made or
    written.
    """

    def __init__(self, folder: str | os.PathLike[str], suffix: str = "o") -> None:
        self.folder = Path(folder)
        self._suffix = suffix
        try:
            make_folder(self.folder)
            with temporary_folder(self.folder, "new-"):
                pass
        except OSError as error:
            raise UserError(
                f"the cache {self.folder} cannot be written: {error.strerror or error}; name "
                "another folder in TVM_IOS_CACHE"
            ) from error

    def code_file(self, key: str) -> Path:
        """Return the path of a kernel's machine code."""
        return self.folder / f"{key}.{self._suffix}"

    def find(self, key: str) -> Artefact | None:
        """Return the artefact of a key; None if it is missing or damaged."""
        try:
            data = json_object((self.folder / f"{key}.json").read_bytes())
            content = self.code_file(key).read_bytes()
            if data["key"] != key or data.pop("sha256") != _digest(data, content):
                return None
            return _read(data)
        except (OSError, ValueError, KeyError, TypeError, IndexError, UserError):
            return None

    def add(self, artefact: Artefact, content: bytes) -> None:
        """Write the machine code, then the description, without which the code is ignored.

        Raise OSError if they cannot be written.
        """
        try:
            self._add(artefact, content)
        except OSError as error:
            # Errors of a full disk lack the path.
            raise OSError(error.errno, error.strerror, str(self.folder)) from error

    def _add(self, artefact: Artefact, content: bytes) -> None:
        with temporary_folder(self.folder, "new-") as folder:
            code_file = folder / "kernel.code"
            code_file.write_bytes(content)
            data = _described(artefact)
            description_file = folder / "kernel.json"
            description_file.write_text(json.dumps({**data, "sha256": _digest(data, content)}))
            code_file.rename(self.code_file(artefact.key))
            description_file.rename(self.folder / f"{artefact.key}.json")


def _described(artefact: Artefact) -> dict[str, Any]:
    """Return an artefact as plain data, with a table of the expressions of open extents."""
    table = ExpressionTable()
    known: Artefact = table.references(artefact)
    data = {**asdict(known), "phases": [astuple(phase) for phase in known.phases]}
    return {**data, "expressions": table.to_json()} if symbols_in(artefact) else data


def _read(data: dict[str, Any]) -> Artefact:
    """Return the artefact that :func:`_described` wrote; raise an error if it is none."""
    if "expressions" not in data:
        return read_as(Artefact, data)
    extent = ExpressionReader(data["expressions"]).extent
    tiles = [extent(row[1]) for row in data["phases"]]
    scratch = tuple((tuple(map(extent, shape)), str(dtype)) for shape, dtype in data["scratch"])
    rows = [[row[0], 0, *row[2:]] for row in data["phases"]]
    artefact = read_as(Artefact, {**data, "phases": rows, "scratch": []})
    numbered = zip(artefact.phases, tiles, strict=True)
    phases = tuple(replace(phase, tiles=count) for phase, count in numbered)
    return replace(artefact, phases=phases, scratch=scratch)


def _digest(description: Any, content: bytes) -> str:
    """Return one checksum of both, so that damage of either shows."""
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    digest.update(content)
    return digest.hexdigest()
