"""Reading and checking the file of a sweep, which a user writes."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, cast

from tvm_ios import zoo
from tvm_ios.costs.named import MEASURED, cost_names
from tvm_ios.errors import ModelError
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
from tvm_ios.models.source import ModelSource
from tvm_ios.policies.registry import policy_names
from tvm_ios.sweep.tasks import FLEET, HERE, TaskLimits, Workload
from tvm_ios.sweep.toml_values import (
    SweepError,
    count,
    is_list,
    list_of,
    require_known,
    seconds,
    table,
    text,
)

#: The kinds of crossings: each schedule is then evaluated under all other values of the kind.
CROSSINGS = ("batches", "shapes", "devices")

_MODEL_KEYS = ("model", "batches", "shapes")
_LIMITS: Mapping[str, Callable[[Any, str], Any]] = {
    "max_block": count,
    "time_limit": seconds,
    "max_measurements": count,
    "lanes": count,
}
_KEYS = (
    *("models", "batches", "shapes", "devices", "policies", "pruning"),
    *("crossings", "memory", "exclude", *_LIMITS),
)
#: The keys of an exclusion.
EXCLUDED = ("model", "batch", "device", "policy", "pruning", "memory")

Shapes = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class SweepFile:
    """The checked contents of a sweep's file."""

    #: The folder of the file, at which relative paths begin.
    folder: Path
    #: Models, with their batches and shapes.
    workloads: tuple[Workload, ...]
    #: One search for each combination of these and a workload.
    devices: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    pruning: tuple[tuple[int, int], ...] = ((3, 8),)
    #: Those of :data:`CROSSINGS` by which schedules are crossed.
    crossings: tuple[str, ...] = ()
    #: Memory schedulers, run for each workload.
    memory: tuple[str, ...] = ()
    #: Combinations to leave out: values for some of the keys :data:`EXCLUDED`.
    exclude: tuple[Mapping[str, tuple[Any, ...]], ...] = ()
    #: Limits of each task.
    limits: TaskLimits = field(default_factory=TaskLimits)


def read_sweep(path: Path) -> SweepFile:
    """Read the ``.toml`` file of a sweep.

    Raise SweepError if it is no TOML, lacks a key, has an unknown one, or has an invalid value;
    OSError if it cannot be read.
    """
    try:
        data = tomllib.loads(path.read_bytes().decode())
    except ValueError as error:
        raise SweepError(f"{path} is no TOML: {error}") from error
    try:
        return _sweep(table(data, "the file", ("sweep",)), path.parent)
    except SweepError as error:
        raise SweepError(f"{path}: {error}") from error


def _sweep(data: Mapping[str, Any], folder: Path) -> SweepFile:
    entries = table(data.get("sweep", {}), "[sweep]", _KEYS)

    def read(key: str, value: Callable[[Any, str], Any], default: Any = ()) -> Any:
        return list_of(value, entries[key], key) if key in entries else default

    if "models" not in entries:
        raise SweepError('[sweep] has no models: write models = ["squeezenet"]')
    workloads = tuple(
        dict.fromkeys(
            workload
            for entry in list_of(partial(_model, folder), entries["models"], "models")
            for workload in _workloads(
                entry, read("batches", count, (None,)), read("shapes", _shapes, ((),))
            )
        )
    )
    sweep = SweepFile(
        folder,
        workloads,
        read("devices", partial(_device, folder)),
        read("policies", partial(_named, policy_names(), "a policy")),
        read("pruning", _pruning, ((3, 8),)),
        read("crossings", partial(_named, CROSSINGS, "what schedules can be crossed by")),
        read("memory", partial(_named, tuple(MEMORY_SCHEDULERS), "a memory scheduler")),
        read("exclude", _exclusion),
        TaskLimits(**{key: _LIMITS[key](entries[key], key) for key in _LIMITS if key in entries}),
    )
    if bool(sweep.devices) != bool(sweep.policies):
        missing = "policies" if sweep.devices else "devices"
        raise SweepError(f"[sweep] has no {missing}: a search needs devices and policies")
    if not sweep.devices and not sweep.memory:
        raise SweepError("[sweep] asks for nothing: give devices and policies, or memory")
    return sweep


@dataclass(frozen=True)
class _ModelEntry:
    """An entry of ``models``, with the batches and shapes that are for it alone."""

    models: tuple[str, ...]
    batches: tuple[int, ...] | None = None
    shapes: tuple[Shapes, ...] | None = None


def _workloads(
    entry: _ModelEntry, batches: tuple[int | None, ...], shapes: tuple[Shapes, ...]
) -> Iterator[Workload]:
    for model, batch, shape in product(
        entry.models, entry.batches or batches, entry.shapes or shapes
    ):
        yield Workload(model, batch, shape)


def _model(folder: Path, value: Any, key: str) -> _ModelEntry:
    if not isinstance(value, dict):
        return _ModelEntry(_models(folder, text(value, key)))
    entry = table(value, "a model", _MODEL_KEYS)
    if "model" not in entry:
        raise SweepError('a model has no name: write { model = "net.onnx", batches = [1, 8] }')
    return _ModelEntry(
        _models(folder, text(entry["model"], "model")),
        list_of(count, entry["batches"], "batches") if "batches" in entry else None,
        list_of(_shapes, entry["shapes"], "shapes") if "shapes" in entry else None,
    )


def _models(folder: Path, name: str) -> tuple[str, ...]:
    """Return the models that a name stands for: one, or all files that match a pattern."""
    if name in zoo.names():
        return (name,)
    if any(letter in name for letter in "*?["):
        pattern = Path(name)
        top = Path(pattern.anchor) if pattern.is_absolute() else folder
        inside = pattern.relative_to(pattern.anchor)
        files = sorted(file for file in top.glob(str(inside)) if file.is_file())
        if not files:
            raise SweepError(f"models has the pattern {name!r}, which no file in {top} fits")
        return tuple(
            str(file) if pattern.is_absolute() else file.relative_to(folder).as_posix()
            for file in files
        )
    if not (folder / name).is_file():
        try:
            # Names the nearest network of the zoo.
            _ = ModelSource(name).form
        except ModelError as error:
            raise SweepError(str(error)) from error
        except OSError:
            pass
        raise SweepError(f"models has {name!r}, and there is no such file in {folder}")
    return (name,)


def _shapes(value: Any, key: str) -> Shapes:
    if not isinstance(value, dict) or not value:
        raise SweepError(f"{key} has {value!r}: write {{ input = [1, 3, 224, 224] }}")
    shapes = cast(dict[str, Any], value)
    return tuple(
        (name, list_of(count, shapes[name], f"the shape of {name!r}", repeated=True))
        for name in sorted(shapes)
    )


def _device(folder: Path, value: Any, key: str) -> str:
    name = text(value, key)
    if name == HERE:
        return name
    if name.startswith(FLEET):
        if name == FLEET:
            raise SweepError(f"{key} has {name!r}: name the servers' key after the colon")
        return name
    if name == MEASURED:
        raise SweepError(f"devices has {MEASURED!r}: write {HERE!r} for the machine at hand")
    if name.endswith(".json"):
        if not (folder / name).is_file():
            raise SweepError(f"devices has {name!r}, and there is no such file in {folder}")
        return name
    known = (*(n for n in cost_names() if n != MEASURED), HERE)
    return require_known(name, known, "a device")


def _named(allowed: tuple[str, ...], what: str, value: Any, key: str) -> str:
    return require_known(text(value, key), allowed, what)


def _pruning(value: Any, key: str) -> tuple[int, int]:
    if not is_list(value) or len(value) != 2:
        raise SweepError(f"{key} has {value!r}: write [r, s], the units a group, groups a stage")
    r, s = (count(number, key) for number in value)
    return r, s


def _exclusion(value: Any, key: str) -> Mapping[str, tuple[Any, ...]]:
    entries = table(value, f"an entry of {key}", EXCLUDED)
    if not entries:
        raise SweepError(f"{key} has an entry without a key, which is all: name what to leave out")
    return {name: _alternatives(name, values) for name, values in entries.items()}


def _alternatives(name: str, values: Any) -> tuple[Any, ...]:
    """Return the values of a key of an exclusion; a single value needs no list."""
    if name == "pruning":
        several = is_list(values) and all(map(is_list, values))
        return list_of(_pruning, values if several else [values], name)
    read = count if name == "batch" else text
    return list_of(read, values if is_list(values) else [values], name)
