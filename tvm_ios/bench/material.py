"""Make the executables, ONNX files and TVM build that are compared; reuse those that fit."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from tvm_ios.api import optimize, optimize_throughput
from tvm_ios.contest.outputs import Verify
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import write_atomically
from tvm_ios.files.json_text import json_object
from tvm_ios.models.source import ModelSource
from tvm_ios.progress import Progress
from tvm_ios.schedule.schedule import Schedule

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.search_options import SearchOptions

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
    options: SearchOptions,
    *,
    policies: Sequence[str] | None,
    verify: Verify,
    tvm_build: bool,
    progress: Progress | None,
) -> Material:
    """Optimise a model into ``folder``, with the files that peers read; reuse an equal call's.

    Files of another model, machine or search are replaced. With ``tvm_build`` TVM's own build is
    made too. Raise UserError if the model cannot be read or scheduled, or is not an ONNX model.
    """

    def make(loaded: LoadedModel) -> None:
        # Or the build of an earlier request could be taken for this one's.
        (folder / TVM_BUILD).unlink(missing_ok=True)
        optimize(
            loaded,
            folder / "ours",
            options=options,
            policies=policies,
            sequential=folder / "sequential",
            tvm_build=folder / TVM_BUILD if tvm_build else None,
            beside_tvm=tvm_build,
            fallback=(),
            verify=verify,
            progress=progress,
        )

    last = TVM_BUILD if tvm_build else "sequential"
    return _made_once(source, folder, options, policies, verify, make, {}, last)


def prepare_served(
    source: ModelSource,
    folder: Path,
    options: Callable[[int | None], SearchOptions],
    *,
    policies: Sequence[str] | None,
    verify: Verify,
    progress: Progress | None,
) -> Material:
    """Optimise a model for requests a second into ``folder``, with the files that peers read.

    As :func:`prepare_material`, but only ``ours`` is made; ``options`` is as of
    :func:`tvm_ios.api.optimize_throughput`.
    """

    def make(loaded: LoadedModel) -> None:
        optimize_throughput(
            loaded, folder / "ours", options, policies=policies, verify=verify, progress=progress
        )

    objective: dict[str, object] = {"objective": "throughput"}
    return _made_once(source, folder, options(None), policies, verify, make, objective, "ours")


def _made_once(
    source: ModelSource,
    folder: Path,
    options: SearchOptions,
    policies: Sequence[str] | None,
    verify: Verify,
    make: Callable[[LoadedModel], None],
    more: dict[str, object],
    last: str,
) -> Material:
    """Write the files that peers read and call ``make``, unless an equal request left them there.

    ``more`` has further facts that the programs depend on, and ``last`` the file that ``make``
    writes last.
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
    request = _request(files, options, policies, source.dialect, verify) | more
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
    """Return the SHA-256 of a tuning log's file or files; None without a log."""
    if database is None:
        return None
    digest = hashlib.sha256()
    for file in sorted(database.iterdir()) if database.is_dir() else [database]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _request(
    files: Mapping[str, bytes],
    options: SearchOptions,
    policies: Sequence[str] | None,
    dialect: str,
    verify: Verify,
) -> dict[str, object]:
    """Return everything the executables depend on, as plain data."""
    tvm, limits = importlib.import_module("tvm"), options.limits
    return {
        "dialect": dialect,
        "verify": verify.value,
        "files": {name: hashlib.sha256(files[name]).hexdigest() for name in files},
        "lanes": options.lanes,
        "target": str(options.resolved_target),
        "log": log_digest(options.database),
        "winograd": options.winograd,
        "precision": options.precision or "float32",
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
