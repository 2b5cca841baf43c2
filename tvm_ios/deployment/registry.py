"""The registry of a deployment: the model, and the programs that the folder has.

``deployment.json`` is one JSON object whose last key, ``sha256``, is the checksum of all bytes
before it. It is written last and renamed into place, so that all files that it names exist.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

from tvm_ios.deployment.entry import Entry
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import write_atomically
from tvm_ios.files.json_text import JsonError, json_object

#: The file's name, by which a folder is known as a deployment.
REGISTRY = "deployment.json"
_FORMAT = "tvm-ios deployment"
#: With programs for ranges of shapes, and without.
_VERSION, _VERSION_OF_SHAPES = 2, 1
_SUM_KEY = b'"sha256": "'


class DeploymentError(UserError):
    """A deployment cannot be read, written or used: one sentence with the reason."""


@dataclass(frozen=True, slots=True)
class Registry:
    """The content of a deployment: the model's name, its digest ``identity``, and the entries.

    A model of another digest is refused.
    """

    model: str
    identity: str
    entries: tuple[Entry, ...] = ()

    def having(self, entry: Entry) -> Registry:
        """Return the registry with one more entry, which replaces one for the same use."""
        others = tuple(e for e in self.entries if e.id != entry.id and not e.of_same_use(entry))
        return replace(self, entries=(*others, entry))

    def without(self, ids: set[str]) -> Registry:
        """Return the registry without the entries of these names."""
        return replace(self, entries=tuple(e for e in self.entries if e.id not in ids))


def is_deployment(folder: Path) -> bool:
    """Return whether a path is a folder with a registry."""
    return (folder / REGISTRY).is_file()


def read_registry(folder: Path) -> Registry:
    """Read the registry of a deployment.

    Raise DeploymentError if there is none, or it is damaged or of another version.
    """
    path = folder / REGISTRY
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise DeploymentError(f"{folder} is no deployment: it lacks {REGISTRY}") from None
    except OSError as error:
        raise DeploymentError(f"cannot read {path}: {error.strerror or error}") from error
    damaged = f"{path} is damaged; make the deployment again"
    try:
        data = json_object(content)
    except JsonError as error:
        raise DeploymentError(damaged) from error
    try:
        if data["format"] != _FORMAT:
            raise DeploymentError(f"{path} is not of a {_FORMAT}")
        if data["version"] not in (_VERSION, _VERSION_OF_SHAPES):
            raise DeploymentError(
                f"{path} is of format version {data['version']} and this tvm-ios reads "
                f"{_VERSION_OF_SHAPES} and {_VERSION}; make the deployment again with this one"
            )
        if data["sha256"] != hashlib.sha256(content[: content.rindex(_SUM_KEY)]).hexdigest():
            raise DeploymentError(damaged)
        entries = tuple(map(Entry.from_json, data["entries"]))
        return Registry(str(data["model"]), str(data["identity"]), entries)
    except DeploymentError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DeploymentError(
            f"{path} lacks or misstates {error}; make the deployment again"
        ) from error


def write_registry(folder: Path, registry: Registry) -> None:
    """Write the registry of a deployment, in one step; raise OSError if it cannot be written."""
    has_range = any(entry.is_of_range for entry in registry.entries)
    data = {
        "format": _FORMAT,
        "version": _VERSION if has_range else _VERSION_OF_SHAPES,
        "model": registry.model,
        "identity": registry.identity,
        "entries": [entry.to_json() for entry in registry.entries],
    }
    head = json.dumps(data, indent=1).encode().removesuffix(b"\n}") + b",\n "
    tail = _SUM_KEY + hashlib.sha256(head).hexdigest().encode() + b'"\n}\n'
    write_atomically(folder / REGISTRY, head + tail)
