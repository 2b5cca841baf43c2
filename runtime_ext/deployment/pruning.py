"""Remove programs of a deployment, and the files that no program needs any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime_ext.deployment.writer import only_writer
from tvm_ios.deployment.entry import Entry
from tvm_ios.deployment.registry import DeploymentError, Registry, read_registry, write_registry


@dataclass(frozen=True, slots=True)
class Pruned:
    """The removed entries, and the bytes freed, shared files included."""

    removed: tuple[Entry, ...]
    freed_bytes: int


def prune(folder: Path, names: Sequence[str], *, keep: bool = False) -> Pruned:
    """Remove the named entries; with ``keep`` all others.

    A name may be cut to a unique prefix. The registry is written before files are removed, so that
    a kill leaves a deployment that loads; the next writer removes the rest. Raise DeploymentError
    if there is no such entry, none would stay, or the folder cannot be written.
    """
    before, bytes_before = read_registry(folder), _bytes(folder)
    with only_writer(folder, before.model, before.identity) as registry:
        named = {_named(registry, name, folder).id for name in names}
        removed = tuple(e for e in registry.entries if (e.id in named) is not keep)
        if len(removed) == len(registry.entries):
            raise DeploymentError(
                f"no entry of {folder} would stay: remove the folder if that is meant"
            )
        write_registry(folder, registry.without({entry.id for entry in removed}))
    return Pruned(removed, bytes_before - _bytes(folder))


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _named(registry: Registry, name: str, folder: Path) -> Entry:
    found = [e for e in registry.entries if e.id == name] or [
        e for e in registry.entries if name and e.id.startswith(name)
    ]
    if len(found) != 1:
        ids = ", ".join(entry.id for entry in found or registry.entries)
        many = "is more than one" if found else "is no"
        raise DeploymentError(f"{name!r} {many} entry of {folder}; there are: {ids}")
    return found[0]
