"""Machine code for 64-bit Arm, read back: functions, their innermost loops, instructions."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_FUNCTION = re.compile(r"^[0-9a-f]+ <(\S+)>:$")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(\S+)(?:\t([^/]*))?")
_BRANCH = re.compile(r"b|b\..+|cbn?z|tbn?z")
_TARGET = re.compile(r"(?:^|\s)([0-9a-f]+) <[^>]*>")


@dataclass(frozen=True)
class Instruction:
    """An instruction of a disassembly."""

    address: int
    name: str
    operands: str

    @property
    def target(self) -> int | None:
        """Where a branch goes; None of all other instructions."""
        found = _TARGET.search(self.operands) if _BRANCH.fullmatch(self.name) else None
        return int(found[1], 16) if found else None

    @property
    def calls(self) -> bool:
        """Whether it calls a function."""
        return self.name in ("bl", "blr")

    @property
    def spills(self) -> bool:
        """Whether it moves a vector register from or to the stack, as it lies there."""
        moves = re.fullmatch(r"(ld|st)(u?r|p)", self.name)
        return bool(moves and re.match(r"q\d.*\[sp[,\]]", self.operands))

    @property
    def takes_element(self) -> bool:
        """Whether its last operand is an element of a vector, which may have four bytes."""
        return bool(re.search(r"\.(s|h|4b)\[\d\]$", self.operands.strip()))


def functions(file: Path) -> dict[str, list[Instruction]]:
    """The instructions of each function of an object file."""
    command = ["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", str(file)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, list[Instruction]] = {}
    for line in text.splitlines():
        if name := _FUNCTION.match(line):
            found[name[1]] = []
        elif (parts := _INSTRUCTION.match(line)) and found:
            operands = (parts[3] or "").strip()
            next(reversed(found.values())).append(
                Instruction(int(parts[1], 16), parts[2], operands)
            )
    return found


def innermost_loops(code: list[Instruction]) -> list[list[Instruction]]:
    """The instructions of each loop that has no other one in it."""
    loops = [
        (one.target, one.address)
        for one in code
        if one.target is not None and code[0].address <= one.target <= one.address
    ]
    inner = [
        (begin, end)
        for begin, end in loops
        if not any(begin <= b and e <= end and (b, e) != (begin, end) for b, e in loops)
    ]
    return [[one for one in code if begin <= one.address <= end] for begin, end in inner]
