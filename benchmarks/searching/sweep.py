"""A sweep of 40 tasks: one worker against two, with and without Ray; and one that is killed."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.report import write_result
from tvm_ios.cli.frame.output import console

#: 40 tasks: 20 searches, and each schedule priced for the other batch.
SWEEP = """
[sweep]
models = ["inception_v3", "squeezenet", "resnet50", "densenet121", "shufflenet_v2"]
batches = [1, 16]
devices = ["v100", "k80"]
policies = ["ios-both"]
crossings = ["batches"]
"""
TASKS = 40
#: How many tasks are finished when the command is killed, at least.
KILLED_AFTER = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind, in turn")
    parser.add_argument("--no-ray", action="store_true", help="processes alone")
    given = parser.parse_args()
    runners = (
        {"processes": []} if given.no_ray else {"processes": [], "ray": ["--address", "local"]}
    )
    figures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="tvm-ios-") as name:
        folder = Path(name)
        (folder / "sweep.toml").write_text(SWEEP)
        for number in range(given.rounds):
            for runner, options in runners.items():
                seconds: dict[int, float] = {}
                for workers in (1, 2):
                    output = folder / f"{runner}-{workers}-{number}"
                    result, seconds[workers] = run(output, workers, options)
                    figures.append(row("whole", runner, workers, result, seconds[workers]))
                figures[-1]["to_one_worker"] = seconds[2] / seconds[1]
        for runner, options in runners.items():
            output = folder / f"{runner}-killed"
            finished, before = kill(output, options)
            result, seconds_after = run(output, 2, options)
            assert result["resumed"] >= finished
            figures.append(row("until it is killed", runner, 2, {"finished": finished}, before))
            figures.append(row("resumed", runner, 2, result, seconds_after))
            again, seconds_again = run(output, 2, options)
            figures.append(row("nothing left", runner, 2, again, seconds_again))
            require_same(result, folder / "processes-1-0")
    table = Table("what", "by", "workers", "seconds", "to one worker", "finished before")
    for figure in figures:
        ratio = figure.get("to_one_worker")
        table.add_row(
            figure["what"],
            figure["by"],
            str(figure["workers"]),
            f"{figure['seconds']:.1f}",
            "" if ratio is None else f"{ratio:.2f}",
            str(figure["resumed"]),
        )
    console().print(table)
    print(write_result("sweep", figures))


def command(output: Path, workers: int, options: list[str]) -> list[str]:
    file = output.parent / "sweep.toml"
    arguments = ["sweep", file, "-o", output, "--workers", workers, "--json", *options]
    return [sys.executable, "-m", "tvm_ios", *map(str, arguments)]


def run(output: Path, workers: int, options: list[str]) -> tuple[dict[str, Any], float]:
    """What a sweep came to, and how long it took."""
    begin = time.perf_counter()
    done = subprocess.run(command(output, workers, options), capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    if done.returncode:
        sys.exit(done.stderr)
    result = json.loads(done.stdout)
    assert result["tasks"] == TASKS
    return result, seconds


def kill(output: Path, options: list[str]) -> tuple[int, float]:
    """Kill a sweep in its midst; how many tasks were finished, and after how many seconds."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        command(output, 2, options), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while finished(output) < KILLED_AFTER and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return finished(output), time.perf_counter() - begin


def finished(output: Path) -> int:
    return len(list((output / "tasks").glob("*.json")))


def row(what: str, runner: str, workers: int, result: dict[str, Any], seconds: float) -> Any:
    return {
        "what": what,
        "by": runner,
        "workers": workers,
        "seconds": seconds,
        "resumed": result.get("resumed", 0),
        "finished": result.get("finished", TASKS),
    }


def require_same(result: dict[str, Any], whole: Path) -> None:
    """Whatever happened meanwhile, the rows are those of one worker that nobody disturbed."""
    rows = json.loads((whole / "results.json").read_text())["tasks"]
    for ours, theirs in zip(result["rows"], rows, strict=True):
        assert (ours["key"], ours["latency_ms"]) == (theirs["key"], theirs["latency_ms"])


if __name__ == "__main__":
    main()
