"""Programs and memory plans of an executable's files, for whatever machine it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runtime_ext.execution.packages.package import META, open_folder
from runtime_ext.execution.packages.program_files import MEMORY, PROGRAM
from runtime_ext.native_errors import ExecutableError
from tvm_ios.errors import UserError
from tvm_ios.files.json_text import json_object
from tvm_ios.program.arena.open_plan import OpenMemoryPlan
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Program
from tvm_ios.program.program_json import program_from_json
from tvm_ios.shapes.extent import end_values


def placed_programs(path: Path) -> list[tuple[Program, MemoryPlan]]:
    """Return an executable's program with its memory plan, unproven.

    Of a range of shapes they are those of the least and of the largest. Raise ExecutableError if
    there is no program of ours, and UserError if a file is malformed.
    """
    folder, keeper = open_folder(path)
    folder = folder if folder.is_dir() else folder.parent
    try:
        meta = json_object((folder / META).read_bytes())
        if meta.get("runtime") is not None:
            raise ExecutableError(
                f"{path} is another runtime's build, whose launches are not known"
            )
        program = program_from_json(json_object((folder / PROGRAM).read_bytes()))
        memory = json_object((folder / MEMORY).read_bytes())
        placed = [*_placed(program, memory)]
    except OSError as error:
        raise ExecutableError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        if isinstance(error, UserError):
            raise
        raise ExecutableError(f"{path} is damaged: {error}; save it again") from error
    del keeper  # the unpacked files of a tar
    return placed


def _placed(program: Program, memory: Mapping[str, Any]) -> Iterator[tuple[Program, MemoryPlan]]:
    """Yield the program and its memory plan, at the ends of the range if it is open."""
    if not program.symbols:
        yield program, MemoryPlan.from_json(memory, program)
        return
    plan = OpenMemoryPlan.from_json(memory, program)
    for values in end_values(program.symbols):
        yield program.at(values), plan.at(program, values)
