"""The content of a task, which is all that its result depends on, and the key of this content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from tvm_ios import zoo
from tvm_ios.costs import named as cost_registry
from tvm_ios.devices import device as devices
from tvm_ios.devices.engine import engine_of
from tvm_ios.errors import ModelError
from tvm_ios.extensions import extensions
from tvm_ios.files.digest import file_digest
from tvm_ios.onnx.file import weight_files
from tvm_ios.policies import registry as policies
from tvm_ios.sweep.tasks import (
    FLEET,
    MemoryTask,
    SearchTask,
    Task,
    TaskLimits,
    Workload,
    is_measured,
)

#: To be increased when equal content would give another result.
_VERSION = 1
#: The key, in a task's content, of the tracker's address.
TRACKER = "tracker"
#: Number of models, with their batch and shapes, that a worker keeps for its next tasks.
MODELS_KEPT = 4
#: The keys, in a task's content, that determine its graph.
_GRAPH = ("model", "batch", "shapes")


@dataclass(frozen=True)
class Job:
    """A task as a worker gets it."""

    #: Hash of the content: equal for tasks of equal content alone.
    key: str
    #: The task as plain data.
    content: Mapping[str, Any]
    #: The paths of the files that the content refers to, by the names used there.
    files: Mapping[str, Path]
    #: The key of the job whose schedule it takes, or None.
    needs: str | None = None
    #: The device that it needs for itself, or None: ``here`` or ``fleet:KEY``.
    holds: str | None = None

    @cached_property
    def model(self) -> str:
        """A text that is equal for jobs of the same model, batch and shapes."""
        return json.dumps([self.content[key] for key in _GRAPH])


def versions(*packages: str) -> dict[str, str | None]:
    """Return the versions of tvm-ios, TVM and ``packages``; None for one that is not installed."""
    return {name: _version(name) for name in ("tvm-ios", "apache-tvm", *packages)}


class Jobs:
    """Turns tasks into jobs, and reads each file only once.

    Relative paths begin at ``folder``. ``machines`` describes each measured device in words, and
    ``tracker`` is the HOST:PORT of the tracker of remote devices.
    """

    def __init__(
        self,
        folder: Path,
        limits: TaskLimits,
        machines: Mapping[str, str],
        tracker: str | None = None,
    ) -> None:
        self._folder = folder
        self._limits = limits
        self._machines = machines
        self._tracker = tracker
        self._models: dict[str, _Named] = {}
        self._devices: dict[str, _Named] = {}
        self._stamps: dict[Path, tuple[int, int]] = {}

    def job(self, task: Task) -> Job:
        """Return the job of a task.

        Raise OSError if a file is gone, UserError if a device's file is invalid.
        """
        model = self._model(task.workload)
        content: dict[str, Any] = {
            "model": model.content,
            "batch": task.workload.batch,
            "shapes": {name: list(shape) for name, shape in task.workload.shapes},
        }
        if isinstance(task, MemoryTask):
            limit = 30.0 if self._limits.time_limit is None else self._limits.time_limit
            content |= {"kind": "memory", "scheduler": task.scheduler, "time_limit": limit}
            return _job({**content, "versions": versions()}, model.files)
        device = self._device(task.device)
        packages = dict.fromkeys(filter(None, (_package(cost_registry.GROUP, task.device),)))
        content |= {"device": device.content, "max_block": self._limits.max_block}
        if is_measured(task.device):
            content |= {
                "time_limit": self._limits.time_limit,
                "max_measurements": self._limits.max_measurements,
                "lanes": self._limits.lanes,
            }
        if task.device.startswith(FLEET):
            content[TRACKER] = self._tracker
        needs = None
        if isinstance(task, SearchTask):
            if package := _package(policies.GROUP, task.policy):
                packages[package] = None
            pruning = list(task.pruning)
            content |= {"kind": "search", "policy": task.policy, "pruning": pruning}
        else:
            needs = self.job(task.search).key
            content |= {"kind": "crossing", "schedule": needs}
        content["versions"] = versions(*packages)
        holds = task.device if is_measured(task.device) else None
        return _job(content, {**model.files, **device.files}, needs, holds)

    def changed(self, job: Job) -> Path | None:
        """Return a file of a job that has changed since the job was made; None if none has."""
        return next((p for p in job.files.values() if _stamp(p) != self._stamps[p]), None)

    def _model(self, workload: Workload) -> _Named:
        name = workload.model
        if name not in self._models:
            in_zoo = name in zoo.names()
            named = _Named({"name": name}) if in_zoo else _model_files(self._folder / name)
            self._models[name] = self._stamped(named)
        return self._models[name]

    def _device(self, name: str) -> _Named:
        if name not in self._devices:
            self._devices[name] = self._stamped(self._described(name))
        return self._devices[name]

    def _stamped(self, named: _Named) -> _Named:
        self._stamps |= {path: _stamp(path) for path in named.files.values()}
        return named

    def _described(self, name: str) -> _Named:
        if is_measured(name):
            return _Named({"name": name, "machine": self._machines[name]})
        if _package(cost_registry.GROUP, name):
            return _Named({"name": name})
        path = self._folder / name
        is_file = name.endswith(".json")
        device = devices.load_device(str(path) if is_file else name)
        figures = f"{device} {engine_of(device)}".encode()
        content = {"name": path.name if is_file else name}
        content["sha256"] = hashlib.sha256(figures).hexdigest()
        return _Named(content, {file_name(content): path} if is_file else {})


def file_name(content: Mapping[str, str]) -> str:
    """Return the key of a file in :attr:`Job.files`, by its name and SHA-256 in the content."""
    return f"{content['sha256']}/{content['name']}"


@dataclass(frozen=True)
class _Named:
    """The part of a content that describes a model or a device, and the files it refers to."""

    content: Mapping[str, str]
    files: Mapping[str, Path] = field(default_factory=dict[str, Path])


def _job(
    content: Mapping[str, Any],
    files: Mapping[str, Path],
    needs: str | None = None,
    holds: str | None = None,
) -> Job:
    text = json.dumps([_VERSION, _nameless(content)], sort_keys=True)
    return Job(hashlib.sha256(text.encode()).hexdigest()[:32], content, files, needs, holds)


def _nameless(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a content without names of files and the tracker's address, which may change."""
    return {
        key: value["sha256"] if isinstance(value, dict) and "sha256" in value else value
        for key, value in content.items()
        if key != TRACKER
    }


def _model_files(path: Path) -> _Named:
    """Describe a model's file, together with the files beside it that hold its weights."""
    beside: dict[str, Path] = {}
    if path.suffix == ".onnx":
        # An invalid file makes its own task fail later, not the whole sweep.
        with suppress(ModelError):
            beside = {name: path.parent / name for name in weight_files(path)}
    folder = path.parent.resolve()
    beside = {
        name: file
        for name, file in beside.items()
        if file.is_file() and file.resolve().is_relative_to(folder)
    }
    digests = [file_digest(file) for file in (path, *beside.values())]
    digest = hashlib.sha256("".join(digests).encode()).hexdigest()
    content = {"name": path.name, "sha256": digest}
    files = {f"{digest}/{name}": file for name, file in beside.items()}
    return _Named(content, {file_name(content): path, **files})


def _stamp(path: Path) -> tuple[int, int]:
    """Return modification time and size of a file; zeros if it is gone."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _package(group: str, name: str) -> str | None:
    """Return the distribution that adds an entry point to a group; None for built-in names."""
    entry = extensions(group).get(name)
    return None if entry is None or entry.dist is None else entry.dist.name


@cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
