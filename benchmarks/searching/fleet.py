"""``tvm-ios schedule`` on one, two and three servers, and on three of which one is killed.

All are processes of this machine with one lane each, so they take each other's time where it has
fewer CPUs than servers and the command need: what more machines are worth is not shown, but what a
loss costs, and whether the schedule is the same. Kernels are compiled before; the log is empty.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.report import update_result
from runtime_ext.fleet.tracker import Address, Tracker, TrackerError
from runtime_ext.machine.this_machine import available_lanes
from tvm_ios.cli.frame.output import console
from tvm_ios.schedule.schedule import Schedule

KEY = "benchmark"
#: Seconds in which a server is free.
STARTS = 120.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=["inception_block"], help="of the zoo")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind, in turn")
    given = parser.parse_args()
    table = Table("network", "servers", "killed", "seconds", "to one server", "used", "lost")
    table.add_column("stages")
    table.add_column("its cost by one log, to one server's")
    for network in given.networks:
        rows = measured(network, given.rounds)
        update_result("fleet", rows, "model", "servers", "killed")
        for row in rows:
            cost = row["cost_by_one_log"]
            table.add_row(
                network,
                str(row["servers"]),
                str(row["killed"]),
                f"{row['seconds']:.1f}",
                f"{row['to_one_server']:.2f}",
                str(row["machines"]),
                str(row["lost"]),
                "same" if row["same_stages"] else "others",
                f"{min(cost):.3f} to {max(cost):.3f}",
            )
    console().print(table)


def measured(network: str, rounds: int) -> list[dict[str, Any]]:
    kinds = [(1, 0), (2, 0), (3, 0), (3, 1)]
    runs: dict[tuple[int, int], list[dict[str, Any]]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory(prefix="tvm-ios-") as name, servers_running() as servers:
        cache = Path(name)
        schedule(network, cache, servers, *kinds[0])  # Compiles the kernels.
        for _ in range(rounds):
            for kind in kinds:
                runs[kind].append(schedule(network, cache, servers, *kind))
                if kind == kinds[0]:
                    (log,) = (cache / "logs").glob("*.jsonl")
                    shutil.copy(log, cache / "one.jsonl")
        seconds = {
            kind: [seconds_by_log(network, cache, run["schedule"]) for run in runs[kind]]
            for kind in kinds
        }
    one, least = runs[kinds[0]], min(seconds[kinds[0]])
    return [
        {
            "model": network,
            "servers": kind[0],
            "killed": kind[1],
            "cpus": available_lanes(),
            "seconds": statistics.median(run["seconds"] for run in runs[kind]),
            "to_one_server": statistics.median(
                run["seconds"] / first["seconds"]
                for run, first in zip(runs[kind], one, strict=True)
            ),
            "machines": [run["fleet"]["machines"] for run in runs[kind]],
            "lost": [len(run["fleet"]["lost"]) for run in runs[kind]],
            "left_out": [len(run["fleet"]["left_out"]) for run in runs[kind]],
            "measured": [run["measured"] for run in runs[kind]],
            "same_stages": all(run["stages"] == one[0]["stages"] for run in runs[kind]),
            "cost_by_one_log": [each / least for each in seconds[kind]],
        }
        for kind in kinds
    ]


def schedule(
    network: str, cache: Path, servers: Servers, devices: int, killed: int
) -> dict[str, Any]:
    """What a search came to that finds no measurements, and how long the command took."""
    shutil.rmtree(cache / "logs", ignore_errors=True)
    output = cache / "schedule.json"
    command = [sys.executable, "-m", "tvm_ios", "schedule", network, "--json", "-o", str(output)]
    command += ["--measure", "full", "--lanes", "1", "--devices", str(devices), *servers.options]
    begin = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TVM_IOS_CACHE": str(cache)},
    )
    while killed and process.poll() is None:
        if measuring := machines(cache):
            servers.kill(measuring[0])
            break
        time.sleep(0.01)
    out, err = process.communicate()
    seconds = time.perf_counter() - begin
    if process.returncode:
        sys.exit(err)
    result = json.loads(out)
    servers.wait()
    return {
        "seconds": seconds,
        "fleet": result["search"]["fleet"],
        "measured": result["search"]["stages_measured"],
        "stages": [(stage["strategy"], stage["groups"]) for stage in result["stages"]],
        "schedule": Schedule.load(output),
    }


def machines(cache: Path) -> list[str]:
    """Who measured what is in the log by now."""
    lines = [line for log in (cache / "logs").glob("*.jsonl") for line in log.open()]
    whole = [json.loads(line) for line in lines if line.endswith("\n")]
    return [line["machine"] for line in whole if line.get("machine", "").startswith("127.0.0.1:")]


def seconds_by_log(network: str, cache: Path, found: Schedule) -> float:
    """What a schedule costs by the log of one server; with all stages measured it is finite."""
    os.environ["TVM_IOS_CACHE"] = str(cache)  # It has the kernels.
    from relay_passes.load import load_model
    from relay_passes.measured_module import measured_module
    from relay_passes.search_options import SearchOptions
    from tvm_ios.models.source import ModelSource

    loaded = load_model(ModelSource(network))
    module = measured_module(loaded.prepared(), SearchOptions(lanes=1))
    return module.recorded(cache / "one.jsonl").priced(found).latency


class Servers:
    """A tracker and three servers of one lane each, which are started again when killed."""

    def __init__(self) -> None:
        port = free_port()
        self.tracker = Address("127.0.0.1", port)
        listening = ["--host", "127.0.0.1", "--port", str(port), "--port-end", str(port + 1)]
        self._tracker = started("tvm.exec.rpc_tracker", *listening, "--silent")
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        for _ in range(3):
            self._start()
        self.wait()

    @property
    def options(self) -> list[str]:
        return ["--tracker", str(self.tracker), "--key", KEY]

    def kill(self, address: str) -> None:
        process = self._servers.pop(address)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def wait(self) -> None:
        """Wait until three servers are free; those that were killed are started again."""
        while len(self._servers) < 3:
            self._start()
        deadline = time.monotonic() + STARTS
        while time.monotonic() < deadline:
            try:
                listed = Tracker(self.tracker).listed().get(KEY)
                if listed is not None and listed.free == 3:
                    return
            except TrackerError:
                pass
            time.sleep(0.1)
        sys.exit(f"three servers are not free within {STARTS:.0f} s")

    def close(self) -> None:
        for process in (*self._servers.values(), self._tracker):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self) -> None:
        port = free_port()
        command = ["tvm_ios", "server", "--port", str(port), *self.options]
        self._servers[f"127.0.0.1:{port}"] = started(*command)


@contextmanager
def servers_running() -> Iterator[Servers]:
    servers = Servers()
    try:
        yield servers
    finally:
        servers.close()


def started(*module: str) -> subprocess.Popen[bytes]:
    # In a group of its own, which is killed as a whole: servers have a process for each session.
    return subprocess.Popen(
        [sys.executable, "-m", *module],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


if __name__ == "__main__":
    main()
