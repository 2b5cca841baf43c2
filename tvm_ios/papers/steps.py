"""Computations that are done once: kept on disk as soon as they end, and shared."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tvm_ios.files.atomic import make_folder, write_atomically
from tvm_ios.files.json_text import JsonError, json_object
from tvm_ios.papers.sources import are_unchanged, loaded_sources, surroundings

_FORMAT = {"format": "tvm-ios step", "version": 1}


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
        """What a function gives for some arguments, computed if that is not known.

        It is known as long as the code and data that were loaded then, the versions and the machine
        are the same. Who asks for what another process computes waits for that.

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
        text = json.dumps([name, arguments], sort_keys=True)
        path = self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"
        make_folder(self._folder)
        with _locked(path.with_suffix(".lock")):
            known = None if self._anew and path not in self._done else _read(path, function)
            if known is None:
                known = self._computed(path, name, function, arguments)
            elif path not in self._done:
                self.kept_seconds += known.get("seconds", 0.0)
        self._done.add(path)
        return known["result"]

    def _computed(
        self, path: Path, name: str, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> dict[str, Any]:
        begin = time.process_time()
        record = {
            **_FORMAT,
            "function": name,
            "arguments": arguments,
            "result": function(*arguments),
            "seconds": time.process_time() - begin,
            "surroundings": surroundings(),
            "sources": loaded_sources(),
        }
        content = json.dumps(record)
        if record["sources"] is not None:
            write_atomically(path, content.encode())
        return json.loads(content)


def _read(path: Path, function: Callable[..., Any]) -> dict[str, Any] | None:
    """What a file has of a function, if that still holds."""
    try:
        data = json_object(path.read_bytes())
    except (FileNotFoundError, JsonError):
        # What is damaged is done again.
        return None
    if not _FORMAT.items() <= data.items() or "result" not in data:
        return None
    used = {name: data["sources"][name] for name in data["sources"] if _is_used(name, function)}
    holds = data["surroundings"] == surroundings() and are_unchanged(used)
    return data if holds else None


def _is_used(name: str, function: Callable[..., Any]) -> bool:
    """Whether a function may depend on a file: what sets rows beside others is not asked by steps.

    Of this room that leaves the folder of the function's own system; systems import no other one.
    """
    room, own = __name__.split(".")[:-1], function.__module__.split(".")[:3]
    return not name.startswith("/".join(room)) or name.startswith("/".join((*own, "")))


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """Wait for a lock, which a killed holder gives up."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
