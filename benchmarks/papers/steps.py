"""Computations that are done once for each revision of the code: kept on disk, and shared."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from runtime_ext.machine.this_machine import available_lanes, device_name
from tvm_ios.files.atomic import make_folder, write_atomically
from tvm_ios.files.json_text import JsonError, json_object
from tvm_ios.files.locks import locked
from tvm_ios.sweep.content import versions

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("tvm_ios", "runtime_ext", "relay_passes", "benchmarks/papers")
#: Whose versions results depend on, besides our own and TVM's.
_LIBRARIES = ("networkx", "numpy", "onnx", "onnxruntime", "ortools")


class Steps:
    """The computations of a folder.

    Parameters
    ----------
    folder
        Where there is a file for each.
    anew
        Whether what is there counts for nothing.

    Attributes
    ----------
    kept_seconds
        Seconds of a core that all that was there already had taken.
    """

    def __init__(self, folder: Path, anew: bool = False) -> None:
        self._folder = folder
        self._anew = anew
        self._done: set[Path] = set()
        self.kept_seconds = 0.0

    def once(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function gives for some arguments, computed if that is not known.

        It is known as long as the code, the versions and the machine are the same. Who asks for
        what another process computes waits for that.

        Parameters
        ----------
        function
            A function of a module; it depends on its arguments and on nothing that changes.
        arguments
            Plain data.

        Returns
        -------
        Any
            Plain data, as JSON gives it back: tuples are lists, keys are texts.
        """
        name = f"{function.__module__}.{function.__qualname__}"
        text = json.dumps([name, arguments, revision()], sort_keys=True)
        path = self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"
        make_folder(self._folder)
        with locked(path.with_suffix(".lock")):
            known = None if self._anew and path not in self._done else _read(path)
            if known is None:
                begin = time.process_time()
                result = function(*arguments)
                record = {"result": result, "seconds": time.process_time() - begin}
                content = json.dumps(record)
                write_atomically(path, content.encode())
                known = json.loads(content)
            elif path not in self._done:
                self.kept_seconds += known["seconds"]
        self._done.add(path)
        return known["result"]


@cache
def revision() -> str:
    """Return a digest of all that results depend on: code and its data, versions, the machine."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((_ROOT / package).rglob("*")):
            # The published values are given as arguments.
            if path.is_file() and "__pycache__" not in path.parts and "texts" not in path.parts:
                digest.update(f"{path.relative_to(_ROOT)}\n".encode() + path.read_bytes())
    digest.update(json.dumps(versions(*_LIBRARIES), sort_keys=True).encode())
    digest.update(device_name(available_lanes()).encode())
    return digest.hexdigest()


def _read(path: Path) -> dict[str, Any] | None:
    try:
        record = json_object(path.read_bytes())
    except (FileNotFoundError, JsonError):
        # What is damaged is done again.
        return None
    return record if {"result", "seconds"} <= record.keys() else None
