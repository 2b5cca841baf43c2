"""Commands and what they did, as text that is the same on every machine and in every run."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cli.command_line import tvm_ios

#: What differs from machine to machine and from run to run, in the order of its replacement.
_CHANGING = {
    "processor": r"^.*(?=, \d+ lanes; measured peak)",
    "arch": r"x86-64-v\d",
    "version": r"\b\d+\.\d+\.\d+(\.?(dev|post|rc)\d+)?\b",
    "date": r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?([+-]\d{2}:\d{2}|Z)?",
    "hash": r"\b[0-9a-f]{8,64}\b",
    "kernel": r"\bk[0-9a-f]{24}_\d+\b",
    "parts": r"(?<=now);( [\w' ]+ [\d.]+ s,?)*|(?<=by h200);( [\w' ]+ [\d.]+ s,?)*",
    "stages": r"\d+ stages?(?= measured)",
    "features": r"(?<=CPU features)( +\S+,)*( +\S+)$",
    # What explain advises depends on the machine.
    "advice": r"^(launch overhead|block \d+ \(|the lanes? (is|are) busy).*$|"
    r"(?<=\"advice\": \").*(?=\")|(?<=\"bound\": \").*(?=\")",
    "#": r"(?<![\w.])-?(\d+\.\d+(e[-+]?\d+)?|\d+e[-+]?\d+|\d+(?=%)|"
    r"\d+(?= (ms|[uµ]?s|B|MB|[KMG]iB|GFLOP/s|GB/s)\b))",
}
#: Names in JSON of what machines have or chose.
_MACHINE = ("features", "kernels", "hot", "processor", "system", "date", "caches", "worker")


def _steady(text: str) -> str:
    """Return text without what changes, and without the notice of a busy machine."""
    text = re.sub(r"^something else keeps this machine busy:.*\n", "", text, flags=re.MULTILINE)
    for name, pattern in _CHANGING.items():
        text = re.sub(pattern, f"<{name}>", text, flags=re.MULTILINE)
    return text


def _rows(text: str) -> str:
    """Return text without progress bars and borders, cells apart by one sign, however wide."""
    bar = re.compile(r".*\s\d+/\d+\s+\d:\d\d:\d\d\s*|.*━━━━.*")
    lines = [line for line in text.splitlines() if not bar.fullmatch(line) or "┳" in line]
    lines = [line for line in lines if not re.fullmatch(r"[┏━┳┓┡╇┩└─┴┘╭╮╰╯├┼┤]+", line.strip())]
    return "\n".join(re.sub(r"\s*[│┃]\s*", " | ", line).strip() for line in lines)


def _form(value: Any) -> Any:
    """Return the form of a JSON value: its names, types, and the texts that it has."""
    if isinstance(value, dict):
        return {
            name: type(value[name]).__name__ if name in _MACHINE else _form(value[name])
            for name in sorted(value)
        }
    if isinstance(value, list):
        forms: list[Any] = []
        for item in value:
            if (one := _form(item)) not in forms:
                forms.append(one)
        return forms
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else value


def _told(command: str) -> str:
    done = tvm_ios(*command.split())
    lines = [f"$ tvm-ios {command}", f"exit {done.code}"]
    for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        if "--json" in command and name == "stdout" and text:
            told = json.dumps(_form(json.loads(text)), indent=1, ensure_ascii=False)
        else:
            told = _rows(text)
        if told.strip():
            lines += [f"-- {name}", told]
    told = _steady("\n".join(lines))
    if command.startswith(("explain", "bench")):
        # Shares are whole numbers, and which unit takes most differs.
        told = re.sub(r"(?<=\| )\d+(?= \|)", "<#>", told)
        units = r"<advice>|\| \w+ \(.*"
        told = "\n".join(row for row in told.splitlines() if not re.fullmatch(units, row))
    return told


def transcript(folder: Path, commands: Sequence[str]) -> str:
    """Run commands in the current folder; return what they said, and the files that it has then."""
    before = set(folder.rglob("*"))
    told = [_told(command) for command in commands]
    made = sorted(f.relative_to(folder) for f in set(folder.rglob("*")) - before if f.is_file())
    # Bundles bring the packages along.
    made = [file for file in made if "packages" not in file.parts]
    return "\n\n".join([*told, "\n".join(["files", *(_steady(str(f)) for f in made)])]) + "\n"
