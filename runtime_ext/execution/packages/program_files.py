"""The files of an executable that hold its program, memory plan, schedule and tail.

They are ``program.json``, ``memory.json`` (the offset of each buffer in the arena, or how an open
program's buffers are placed in each shape),
``schedule.json``, ``tail.onnx`` if the end of the model runs after the program, and
``model.tvm_ios``, by whose name TVM's runtime loads the folder as a module.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.files.json_text import json_object
from tvm_ios.program.arena.open_plan import OpenMemoryPlan, read_plan
from tvm_ios.program.happens_before import check_races
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Program
from tvm_ios.program.program_json import program_from_json, program_to_json
from tvm_ios.schedule.schedule import Schedule

if TYPE_CHECKING:
    from tvm_ios.onnx.tail import Tail

#: TVM's runtime chooses the loader of a module by what follows the last dot.
MODULE_FILE = "model.tvm_ios"
TAIL_FILE = "tail.onnx"
PROGRAM, MEMORY, SCHEDULE = "program.json", "memory.json", "schedule.json"


@dataclass(frozen=True)
class ProgramFiles:
    """The program, memory plan, schedule (as JSON data) and tail of an executable.

    The tail is the end of the model, which runs after the program; None if there is none.
    """

    program: Program
    plan: MemoryPlan | OpenMemoryPlan
    schedule: Mapping[str, Any]
    tail: Tail | None

    def write(self, folder: Path) -> None:
        """Write the files into a folder."""
        (folder / PROGRAM).write_text(json.dumps(program_to_json(self.program)))
        (folder / MEMORY).write_text(json.dumps(self.plan.to_json(self.program)))
        (folder / SCHEDULE).write_text(json.dumps(self.schedule, indent=1))
        (folder / MODULE_FILE).write_text("The executable in this folder, as a module.\n")
        if self.tail is not None:
            (folder / TAIL_FILE).write_bytes(self.tail.model.SerializeToString())


def read_program_files(folder: Path, *, tail: bool) -> ProgramFiles:
    """Read the files that :meth:`ProgramFiles.write` wrote, and prove the program safe to run.

    ``tail`` says whether there is a tail. Raise UserError if a file is malformed, the program has
    races, or its plan is not safe; OSError if a file cannot be read.
    """
    program = program_from_json(json_object((folder / PROGRAM).read_bytes()))
    check_races(program)
    plan = read_plan(json_object((folder / MEMORY).read_bytes()), program)
    schedule = json_object((folder / SCHEDULE).read_bytes())
    Schedule.from_json(schedule)
    return ProgramFiles(program, plan, schedule, _read_tail(folder) if tail else None)


def _read_tail(folder: Path) -> Tail:
    # Executables without a tail run where ONNX is not installed.
    import onnx

    from tvm_ios.onnx.tail import Tail

    return Tail(onnx.load_from_string((folder / TAIL_FILE).read_bytes()))
