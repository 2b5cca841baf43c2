"""What is compared of a model: executables, ONNX files, TVM's own build; made once."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from tvm_ios.api import optimize, optimize_throughput
from tvm_ios.api.options import Options
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import write_atomically
from tvm_ios.files.json_text import json_object
from tvm_ios.models.source import ModelSource
from tvm_ios.progress import Progress, silent
from tvm_ios.schedule.schedule import Schedule

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel

_REQUEST = "request.json"
#: What peers read: the model as it is written, what is simplified of it, and TVM's own build.
ONNX, SIMPLIFIED, TVM_BUILD = "model.onnx", "simplified.onnx", "tvm.so"


@dataclass(frozen=True, slots=True)
class Material:
    """A folder with ``ours``, ``sequential`` and what peers read.

    Attributes
    ----------
    model
        Name of the model.
    kept
        The policy of ``ours``.
    batch
        The model's batch size.
    verified
        Whose outputs those of the programs were compared with; None if they were not.
    """

    model: str
    kept: str
    batch: int
    verified: str | None


def prepare_material(
    source: ModelSource,
    folder: Path,
    options: Options,
    *,
    tvm_build: bool,
    progress: Progress = silent,
) -> Material:
    """Make what is compared of a model; what an equal call left in the folder is not made again.

    With ``tvm_build``, TVM's own build is made too, for peers that read it. Raise UserError if the
    model cannot be read or scheduled, or is no ONNX model.
    """

    def make(loaded: LoadedModel) -> None:
        # One of an earlier request would later be taken for this one's.
        (folder / TVM_BUILD).unlink(missing_ok=True)
        how = replace(
            options,
            sequential=folder / "sequential",
            tvm_build=folder / TVM_BUILD if tvm_build else None,
            beside_tvm=tvm_build,
            fallback=(),
        )
        optimize(loaded, folder / "ours", how, progress)

    return _made_once(source, folder, options, make, {}, TVM_BUILD if tvm_build else "sequential")


def prepare_served(
    source: ModelSource, folder: Path, options: Options, *, progress: Progress = silent
) -> Material:
    """Make the program that serves the most requests a second; else as :func:`prepare_material`."""

    def make(loaded: LoadedModel) -> None:
        optimize_throughput(loaded, folder / "ours", options, progress)

    return _made_once(source, folder, options, make, {"objective": "throughput"}, "ours")


def _made_once(
    source: ModelSource,
    folder: Path,
    options: Options,
    make: Callable[[LoadedModel], None],
    more: dict[str, object],
    last: str,
) -> Material:
    """Write what peers read, and make our programs if an equal request has not left them there.

    ``more`` is what they depend on besides the options; ``last`` names the last thing ``make``
    writes.
    """
    from relay_passes.load import load_model
    from runtime_ext.execution.package import META

    loaded = load_model(source)
    if loaded.onnx is None or not isinstance(loaded.original, onnx.ModelProto):
        raise UserError(f"{source.model} is no ONNX model, which peers read: export it to .onnx")
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        ONNX: loaded.original.SerializeToString(),
        SIMPLIFIED: loaded.onnx.SerializeToString(),
    }
    request = _request(files, options, source.dialect) | more
    if not _is_there(folder, request, last):
        # Written last again: a kill leaves nothing that would be taken for whole.
        (folder / _REQUEST).unlink(missing_ok=True)
        make(loaded)
        for name, content in files.items():
            write_atomically(folder / name, content)
        write_atomically(folder / _REQUEST, json.dumps(request, indent=1).encode())
    schedule = Schedule.load(folder / "ours" / "schedule.json")
    notes = json_object((folder / "ours" / META).read_bytes())["notes"]
    return Material(loaded.name, schedule.policy, schedule.batch, notes["reference"])


def log_digest(database: Path | None) -> str | None:
    """What tells a tuning log from another: SHA-256 of its file or files; None without a log.

    Raises
    ------
    OSError
        If there is no such file or folder.
    """
    if database is None:
        return None
    digest = hashlib.sha256()
    for file in sorted(database.iterdir()) if database.is_dir() else [database]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _request(files: Mapping[str, bytes], options: Options, dialect: str) -> dict[str, object]:
    """Return all that the executables depend on, as plain data."""
    tvm, search, policies = importlib.import_module("tvm"), options.search, options.policies
    limits = search.limits
    return {
        "dialect": dialect,
        "verify": options.verify.value,
        "files": {name: hashlib.sha256(files[name]).hexdigest() for name in files},
        "lanes": search.lanes,
        "target": str(search.resolved_target),
        "log": log_digest(search.database),
        "winograd": search.winograd,
        "precision": search.precision or "float32",
        "policies": policies and sorted(set(policies)),
        "pruning": [limits.pruning.r, limits.pruning.s, limits.max_block],
        "budget": repr(limits.budget),
        "versions": [tvm.__version__, metadata.version("apache-tvm-ffi")],
    }


def _is_there(folder: Path, request: dict[str, Any], last: str) -> bool:
    try:
        earlier = json.loads((folder / _REQUEST).read_text())
        return earlier == request and (folder / last).exists()
    except (OSError, ValueError):
        return False
