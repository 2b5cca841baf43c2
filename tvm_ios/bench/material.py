"""Make the executables, ONNX files and TVM build that are compared; reuse those that fit."""

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
#: Files that peers read: the model as written, the simplified model, and TVM's own build.
ONNX, SIMPLIFIED, TVM_BUILD = "model.onnx", "simplified.onnx", "tvm.so"


@dataclass(frozen=True, slots=True)
class Material:
    """Facts of a folder with ``ours``, ``sequential`` and the files that peers read.

    ``kept`` is the policy of ``ours``; ``verified`` the framework whose outputs the programs
    matched, or None.
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
    """Optimise a model into ``folder``, with the files that peers read; reuse an equal call's.

    Files of another model, machine or search are replaced. With ``tvm_build`` TVM's own build is
    made too. Raise UserError if the model cannot be read or scheduled, or is not an ONNX model.
    """

    def make(loaded: LoadedModel) -> None:
        # Or the build of an earlier request could be taken for this one's.
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
    """Optimise a model for requests a second into ``folder``, with the files that peers read.

    As :func:`prepare_material`, but only ``ours`` is made.
    """

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
    """Write the files that peers read and call ``make``, unless an equal request left them there.

    ``more`` has further facts that the programs depend on, and ``last`` the file that ``make``
    writes last.
    """
    from relay_passes.load import load_model
    from runtime_ext.execution.packages.package import META

    loaded = load_model(source, options=options.search)
    if loaded.onnx is None or loaded.written is None:
        raise UserError(f"{source.model} is no ONNX model, which peers read: export it to .onnx")
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        ONNX: loaded.written.SerializeToString(),
        SIMPLIFIED: _for_peers(source, loaded.onnx).SerializeToString(),
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


def _for_peers(source: ModelSource, simple: onnx.ModelProto) -> onnx.ModelProto:
    """Return a simplified model in ONNX's own operators: recurrent layers are cells."""
    from tvm_ios.models.load import load_onnx
    from tvm_ios.onnx.rewrites.recurrence.loops import DOMAIN

    has_loops = any(node.domain == DOMAIN for node in simple.graph.node)
    return load_onnx(replace(source, cells=True)) if has_loops else simple


def log_digest(database: Path | None) -> str | None:
    """Return the SHA-256 of a tuning log's file or files; None without a log."""
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
