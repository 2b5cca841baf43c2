"""Summarise the files of a package, also of one made for another machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime_ext.execution.executable import load
from runtime_ext.execution.packages.package import META, VERSION, open_folder, require_sums
from runtime_ext.execution.packages.program_files import MEMORY, PROGRAM, SCHEDULE
from runtime_ext.execution.ports import read_ports
from runtime_ext.native_errors import ExecutableError
from tvm_ios.errors import UserError
from tvm_ios.files.json_text import json_object
from tvm_ios.program.arena.open_plan import OpenMemoryPlan
from tvm_ios.program.program_json import program_from_json
from tvm_ios.schedule.named_kernels import from_json, units_by_kernel
from tvm_ios.shapes.extent import end_values, is_open
from tvm_ios.shapes.ranges import range_of

_OF_PORT = ("name", "shape", "dtype")


@dataclass(frozen=True, slots=True)
class PackageSummary:
    """Facts of an executable, or of another runtime's build in the place of one."""

    path: Path
    #: The content of ``meta.json``.
    meta: Mapping[str, Any]
    #: How many units run each rKernel that the schedule names.
    named_kernels: Mapping[str, int]
    #: Threads or streams, launches of a run, different kernels, and bytes of the arena, for a range
    #: of shapes at its most; None for another runtime's build, where they are unknown.
    lanes: int | None
    launches: int | None
    kernels: int | None
    arena_bytes: int | None
    #: Bytes of the arena at the least extents of a range; None without one.
    least_arena_bytes: int | None
    #: Name, shape and type of each; an open extent is the text of its range.
    inputs: Sequence[Mapping[str, Any]]
    outputs: Sequence[Mapping[str, Any]]
    #: The bytes of each file.
    files: Mapping[str, int]
    #: Why it cannot run on this machine; None if it can.
    problem: str | None


def summarise_package(path: Path) -> PackageSummary:
    """Read the facts of an executable; raise ExecutableError if it is none, or damaged."""
    folder, keeper = open_folder(path)
    folder = folder if folder.is_dir() else folder.parent
    if not (folder / META).is_file():
        raise ExecutableError(f"{path} is not an executable: it lacks {META}")
    try:
        meta = json_object((folder / META).read_bytes())
        if meta["version"] == VERSION:
            require_sums(folder, path)
        lanes = launches = kernels = arena = least = None
        ports = [meta["inputs"], meta["outputs"]]
        named: dict[str, int] = {}
        if meta.get("runtime") is None:
            program = json_object((folder / PROGRAM).read_bytes())
            steps = [step for lane in program["lanes"] for step in lane]
            lanes, kernels = len(program["lanes"]), len(program["kernels"])
            launches = sum(step[0] == "launch" for step in steps)
            memory = json_object((folder / MEMORY).read_bytes())
            if memory["version"] == 2:
                # Each shape has its own size.
                least, arena = _arenas(program, memory)
                ports = [_open_ports(program, side) for side in ports]
            else:
                arena = memory["nbytes"]
            schedule = json_object((folder / SCHEDULE).read_bytes())
            named = units_by_kernel(from_json(schedule.get("kernels", {})))
        elif "lanes" in meta:
            lanes = meta["lanes"]
        files = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
    except OSError as error:
        raise ExecutableError(f"cannot read {path}: {error.strerror or error}") from error
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise ExecutableError(f"{path} lacks or misstates {error}; save it again") from error
    del keeper  # the unpacked files of a tar
    problem = _problem(path)
    inputs, outputs = ([{key: p[key] for key in _OF_PORT} for p in side] for side in ports)
    return PackageSummary(
        path, meta, named, lanes, launches, kernels, arena, least, inputs, outputs, files, problem
    )


def _arenas(program: Mapping[str, Any], memory: Mapping[str, Any]) -> tuple[int, int]:
    """Return the bytes of the arena at the least and the largest extents of a range."""
    opened = program_from_json(program)
    plan = OpenMemoryPlan.from_json(memory, opened)
    least, most = (plan.at(opened, values).nbytes for values in end_values(opened.symbols))
    return least, most


def _open_ports(program: Mapping[str, Any], ports: Sequence[Any]) -> list[dict[str, Any]]:
    """Return ports with texts in the place of open extents."""
    opened = program_from_json(program)
    return [
        {**item, "shape": [str(range_of(e)) if is_open(e) else e for e in port.shape]}
        for item, port in zip(ports, read_ports(ports, opened), strict=True)
    ]


def _problem(path: Path) -> str | None:
    try:
        load(path)
    except UserError as error:
        return str(error)
    return None
