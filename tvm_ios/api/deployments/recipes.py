"""Read a folder of other machines' logs, schedules and results as recipes of programs.

A folder may hold, at any depth: results of bundles (``results.json`` beside schedules), schedules,
measurement logs (``.jsonl``) and MetaSchedule databases of tuned kernels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvm_ios.api.deployments.combinations import Recipe
from tvm_ios.costs.log_lines import read_header
from tvm_ios.errors import UserError
from tvm_ios.files.json_text import json_object, natural

_RESULTS = "results.json"
_DATABASE = "database_tuning_record.json"
_LANES = re.compile(r'(\d+) lanes|"?num-cores"?[=:] ?(\d+)')


def read_recipes(folder: Path) -> tuple[list[Recipe], list[str]]:
    """Return a folder's recipes, those with schedules first, and a sentence per unusable file.

    Raise UserError if there is no such folder, or it holds no recipe.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder} of logs and schedules")
    recipes: list[Recipe] = []
    others: list[str] = []
    results = [path.parent for path in sorted(folder.rglob(_RESULTS))]
    for path in sorted(folder.rglob("*.json*")):
        # Of the schedules beside results, only the one that they kept is used.
        of_results = path.name != _RESULTS and path.parent in results
        if of_results or path.name.startswith("database_"):
            continue
        try:
            recipes.append(_recipe(path))
        except UserError as error:
            others.append(str(error))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            others.append(f"{path} is neither a log nor a schedule nor results: {error}")
    if not recipes:
        raise UserError(others[0] if others else f"{folder} holds no log and no schedule")
    databases = [path.parent for path in sorted(folder.rglob(_DATABASE))]
    with_kernels = [replace(r, database=_database_of(r, databases)) for r in recipes]
    return sorted(with_kernels, key=lambda r: (r.schedule is None, r.path)), others


def _recipe(path: Path) -> Recipe:
    if path.suffix == ".jsonl":
        header = read_header(path)
        return Recipe(path, header.device, *_machine(path, header.target, header.device))
    data = json_object(path.read_bytes())
    if path.name == _RESULTS:
        kept = str(data["kept"])
        (latency,) = [row["latency_ms"] for row in data["policies"] if row["policy"] == kept]
        arch, lanes = _machine(path, str(data["target"]), f"{data['lanes']} lanes")
        schedule = path.parent / f"schedule-{kept}.json"
        if not schedule.is_file():
            raise UserError(f"{path} lacks {schedule.name} beside it, the schedule that was kept")
        about: dict[str, Any] = {"policy": kept, "latency_ms": float(latency)}
        device, batch = str(data["device"]), natural(data["batch"])
        return Recipe(path, device, arch, lanes, schedule, batch=batch, **about)
    if data["format"] != "tvm-ios schedule":
        raise UserError(f"{path} is no schedule")
    device, batch = str(data["device"]), natural(data["batch"])
    arch, lanes = _machine(path, device, device)
    return Recipe(path, device, arch, lanes, path, policy=str(data["policy"]), batch=batch)


def _machine(path: Path, target: str, device: str) -> tuple[str, int]:
    """Return the instruction-set level or GPU architecture, and the lanes, that a file is for."""
    level, lanes = _level(target), _LANES.search(device) or _LANES.search(target)
    if level is None or lanes is None:
        raise UserError(f"{path} does not say for which level and lanes it is: {device or target}")
    return level, int(lanes[1] or lanes[2])


def _level(text: str) -> str | None:
    """Return what code is for, as a target or a device names it; None if none is named."""
    from runtime_ext.isa.levels import level_in

    gpu = re.search(r"sm_\d+[af]?", text)
    return gpu[0] if gpu else level_in(text)


def _database_of(recipe: Recipe, databases: Sequence[Path]) -> Path | None:
    """Return the first database whose tuned kernels are for the machine of a recipe."""
    for database in databases:
        text = (database / _DATABASE).read_text()
        lanes = {int(cores) for _, cores in _LANES.findall(text) if cores}
        levels = set(map(_level, text.splitlines())) - {None}
        if levels == {recipe.arch} and lanes <= {recipe.lanes}:
            return database
    return None
