"""Writes docs/commands.md: every command with its options and its real output.

    python docs/make/commands.py               run the examples (some four minutes), write the page
    python docs/make/commands.py models stats  run anew the examples of these commands only
    python docs/make/commands.py --words       write all but the outputs that are there already
    python docs/make/commands.py --check       fail if the page lacks a command or an option

Run it on a quiet machine in an environment where tvm-ios is installed: what the examples print
goes into the page as it is, except for the paths of folders. Those of `run`, `info`, `explain`,
`report`, `trace`, `pick` and `prune` need what those of `optimize` make: name it too.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tvm_ios.cli.frame.commands import SUMMARIES, help_page, load_command

PAGE = Path(__file__).parents[1] / "commands.md"

#: The files that the examples of ``sweep`` and ``check`` take.
GIVEN = tuple(PAGE.parents[1] / "examples" / name for name in ("sweep.toml", "plan.json"))

#: Where the example of ``server`` finds a tracker.
_TRACKER = "127.0.0.1:9190"

#: What is run for commands whose help page does not begin with what is to be shown.
_OTHER_EXAMPLES: dict[str, tuple[str, ...]] = {
    "stats": ("tvm-ios stats inception_v3", "tvm-ios stats lstm_small --json"),
    "schedule": ("tvm-ios schedule inception_block --cost v100",),
    "optimize": (
        "tvm-ios optimize squeezenet --policy ios-both,rammer --max-measurements 100 -o out",
        "tvm-ios optimize inception_block --batch 1,8 --policy ios-both "
        "--max-measurements 40 -o app",
    ),
    "run": ("tvm-ios run out", "tvm-ios run out --repeat 100 --json"),
    "info": ("tvm-ios info out",),
    "explain": ("tvm-ios explain out",),
    "report": ("tvm-ios report out",),
    "trace": ("tvm-ios trace out -o trace.json --sequential",),
    "pick": ("tvm-ios pick app",),
    "prune": ('tvm-ios prune app "$(ls app/entries | head -1)"',),
    "server": (f"tvm-ios server --tracker {_TRACKER} --key epyc",),
    "memory": ("tvm-ios memory hrnet_w18_small_v1", "tvm-ios memory darts_cifar --budget 400K"),
    "bundle": ("tvm-ios bundle inception_block --arch x86-64-v3 --lanes 4 -o block.bundle -r 1",),
    "tune": ("tvm-ios tune inception_block --log log --trials 8",),
    "sweep": ("tvm-ios sweep sweep.toml -o results",),
    "bench": (
        "tvm-ios bench inception_block --against onnxruntime,tvm --seconds 5 --max-measurements 20",
    ),
}

#: What is run for each command, one after another in one folder; later ones use earlier results.
EXAMPLES = {name: _OTHER_EXAMPLES.get(name, help_page(name).examples[:1]) for name in SUMMARIES}

INTRODUCTION = """# Commands

Every command prints a table for people and, with `--json`, one JSON object alone on stdout.
Progress goes to stderr. The exit code is 0, 1 for a failure that one sentence on stderr states,
or 2 for a wrong use. `tvm-ios COMMAND --help` shows what stands here, too.

`tvm-ios --install-completion` makes bash, zsh or fish complete commands, options, zoo names,
policies and costs; `--show-completion` only shows what it would install.

The output below is real, as of the machine that `tvm-ios doctor` describes at the end. Times
differ from machine to machine. Made by `python docs/make/commands.py`.
"""


def main() -> None:
    """Write or check the page."""
    if "--check" in sys.argv[1:]:
        faults = list(find_faults(PAGE.read_text()))
        print("\n".join(faults) or f"{PAGE.name} documents every command and option")
        raise SystemExit(bool(faults))
    named = set(sys.argv[1:]) - {"--words"}
    if unknown := named - EXAMPLES.keys():
        raise SystemExit(f"there is no command {', '.join(sorted(unknown))}")
    kept = known_outputs(PAGE.read_text()) if sys.argv[1:] else {}
    parts = [INTRODUCTION]
    with tempfile.TemporaryDirectory(prefix="tvm-ios-") as folder:
        for given in GIVEN:
            shutil.copy(given, folder)
        for name in commands():
            earlier = {} if name in named else kept
            outputs = [earlier.get(line) or _run(line, Path(folder)) for line in EXAMPLES[name]]
            parts.append("\n".join([reference(name), *outputs]))
    PAGE.write_text("\n".join(parts))


def known_outputs(page: str) -> dict[str, str]:
    """For each command line of a page the block that it stands in."""
    blocks = re.findall(r"^```console\n\$ .*?^```\n", page, re.DOTALL | re.MULTILINE)
    return {block.splitlines()[1].removeprefix("$ "): block for block in blocks}


def commands() -> dict[str, Any]:
    """The commands by name."""
    return {name: load_command(name) for name in SUMMARIES}


def reference(name: str) -> str:
    """What a command is for and what its options are."""
    command = commands()[name]
    lines = [f"## tvm-ios {name}", "", inspect.getdoc(command.callback) or "", ""]
    lines += ["| option | default | |", "|---|---|---|"]
    for parameter in command.params:
        default = parameter.default
        shown = "" if default is None or default is False or callable(default) else default
        help_text = re.sub(r"\s+", " ", str(parameter.help or "")).replace("|", "\\|")
        lines.append(f"| {_spelling(parameter)} | {getattr(shown, 'value', shown)} | {help_text} |")
    return "\n".join([*lines, "", help_page(name).then, ""])


def find_faults(page: str) -> Iterator[str]:
    """What the page should say and does not, one sentence each."""
    for name in commands():
        if reference(name) not in page:
            yield f"docs/commands.md does not say what `tvm-ios {name}` is now: write it again"
        for line in EXAMPLES[name]:
            if f"$ {line}\n" not in page:
                yield f"docs/commands.md lacks the output of `{line}`"
    for name in re.findall(r"^## tvm-ios (\S+)$", page, re.MULTILINE):
        if name not in commands():
            yield f"docs/commands.md tells of `tvm-ios {name}`, which does not exist"


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    return ", ".join(f"`{flag}`" for flag in (*parameter.opts, *parameter.secondary_opts))


def _run(line: str, folder: Path) -> str:
    """A command line and what it printed, as Markdown."""
    print(line, file=sys.stderr)
    program = f'{shlex.quote(sys.executable)} -c "from tvm_ios.__main__ import main; main()"'
    shell = ["bash", "-c", line.replace("tvm-ios", program, 1)]
    environment = {**os.environ, "COLUMNS": "110", "TERM": "dumb"}
    if line.startswith("tvm-ios server"):
        return _block(line, _first_line(shell, environment))
    completed = subprocess.run(shell, cwd=folder, capture_output=True, text=True, env=environment)
    # A doctor that finds a problem is worth showing, too, and so is what does not fit.
    if completed.returncode not in (0, 1):
        raise SystemExit(f"{line} failed with exit code {completed.returncode}: {completed.stderr}")
    text = completed.stdout or completed.stderr.splitlines()[-1]
    text = text.replace(str(folder), ".").replace(str(Path.home()), "~")
    return _block(line, text)


def _block(line: str, text: str) -> str:
    shown = "\n".join(row.rstrip() for row in text.rstrip().splitlines())
    return f"```console\n$ {line}\n{shown}\n```\n"


def _first_line(server: list[str], environment: dict[str, str]) -> str:
    """What a server says when it has begun, beside a tracker; it is ended then."""
    host, port = _TRACKER.split(":")
    command = [sys.executable, "-m", "tvm.exec.rpc_tracker", "--host", host, "--port", port]
    silent = subprocess.DEVNULL
    with (
        subprocess.Popen(command, stdout=silent, stderr=silent) as tracker,
        subprocess.Popen(
            server, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
        ) as running,
    ):
        assert running.stderr is not None
        said = next(row for row in running.stderr if row.startswith("tvm-ios: "))
        os.killpg(running.pid, signal.SIGINT)
        tracker.terminate()
    return said


if __name__ == "__main__":
    main()
