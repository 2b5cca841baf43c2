"""The time from the command ``optimize`` to an executable, and to a good one.

Each network is optimised with an empty cache, and then with the kernels and measurements of that
run (*again*). The folder that the command writes is watched: *first* is the time from the start of
the process to the first executable, *good* to the first that takes at most 1.05 of the last one's
time, as timed in turn in one process, and *all* to the end. Beside them is the time that a process
of ONNX Runtime and one of OpenVINO take to a session.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from rich.table import Table

from benchmarks.networks.packaged import PACKAGED
from benchmarks.report import update_result
from runtime_ext.execution.executable import load
from tvm_ios import zoo
from tvm_ios.cli.frame.output import console
from tvm_ios.contest.pairs import paired_ratio
from tvm_ios.contest.rounds import run_in_turn
from tvm_ios.contest.rules import Rules

NETWORKS = (
    *("resnet50", "mobilenet_v2", "squeezenet", "efficientnet_b0", "unet", "bert_small"),
    *("yolov8n", "ppocr_det", "ppocr_rec", "minilm"),
)
#: The last executable is as good as those that take at most this part of its time.
GOOD = 1.05
_PEERS = {
    "onnxruntime": """
import sys
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(sys.argv[2])
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
""",
    "openvino": """
import sys
import openvino
threads = {"INFERENCE_NUM_THREADS": int(sys.argv[2])}
openvino.Core().compile_model(sys.argv[1], "CPU", threads)
""",
}


@dataclass(frozen=True)
class Saved:
    """An executable that a command saved, and when, in seconds from its start."""

    path: Path
    seconds: float


def model_file(network: str, folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the file of a network, and the options of its shapes."""
    if network in PACKAGED:
        return PACKAGED[network].required_path(), PACKAGED[network].options
    path = folder / f"{network}.onnx"
    if not path.exists():
        onnx.save(zoo.build(network, 0), path)
    return path, ()


def optimised(
    file: Path, options: tuple[str, ...], lanes: int, cache: Path, folder: Path
) -> tuple[list[Saved], float]:
    """Run the command; return the executables that it saved one after another, and all seconds."""
    folder.mkdir()
    output = folder / "out"
    command = [sys.executable, "-m", "tvm_ios", "optimize", str(file), *options]
    command += ["--lanes", str(lanes), "-o", str(output)]
    begin = time.perf_counter()
    environment = {**os.environ, "TVM_IOS_CACHE": str(cache)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    saved: list[Saved] = []
    seen: set[int] = set()
    running = True
    while running:
        running = process.poll() is None
        seconds = time.perf_counter() - begin
        # Executables are renamed into place as a whole.
        if output.exists() and (number := output.stat().st_ino) not in seen:
            seen.add(number)
            path = folder / f"saved_{len(saved)}"
            shutil.copytree(output, path, copy_function=os.link)
            saved.append(Saved(path, seconds))
        time.sleep(0.01)
    process.communicate()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {process.returncode}")
    return saved, time.perf_counter() - begin


def ratios_to_last(saved: list[Saved], rounds: int) -> list[float]:
    """Return the medians of the ratios of the executables' times to the last one's."""
    with ExitStack() as stack:
        sessions = [stack.enter_context(closing(load(each.path).session())) for each in saved]
        for session in sessions:
            session.run(**session.random_inputs())
        runs = {str(n): session.run for n, session in enumerate(sessions)}
        seconds = run_in_turn(runs, Rules(rounds=rounds, warm_up=1))
    *_, last = seconds.values()
    return [paired_ratio(each, last[: len(each)]).median for each in seconds.values()]


def session_seconds(peer: str, file: Path, lanes: int) -> float:
    """Return the time that a process takes to a peer's session, the median of three."""
    command = [sys.executable, "-c", _PEERS[peer], str(file), str(lanes)]

    def once() -> float:
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begin

    return statistics.median(once() for _ in range(3))


def row_of(network: str, lanes: int, rounds: int) -> dict[str, Any]:
    row: dict[str, Any] = {"network": network, "lanes": lanes}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        file, options = model_file(network, folder)
        for name in ("cold", "again"):
            saved, seconds = optimised(file, options, lanes, folder / "cache", folder / name)
            ratios = ratios_to_last(saved, rounds)
            good = next(s.seconds for s, r in zip(saved, ratios, strict=True) if r <= GOOD)
            row[name] = {"first": saved[0].seconds, "good": good, "all": seconds}
            row[name]["saved"] = [
                {"seconds": s.seconds, "to_last": r} for s, r in zip(saved, ratios, strict=True)
            ]
        row["session_seconds"] = {peer: session_seconds(peer, file, lanes) for peer in _PEERS}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", default=NETWORKS, help=", ".join(NETWORKS))
    parser.add_argument("--rounds", type=int, default=30, help="runs of each executable")
    parser.add_argument("--lanes", type=int, default=2, help="threads")
    arguments = parser.parse_args()
    table = Table(
        *("network", "first (s)", "good", "all", "first again", "good", "all"),
        *("first to last", "ONNX Runtime's session (s)", "OpenVINO's"),
    )
    for network in arguments.networks:
        row = row_of(network, arguments.lanes, arguments.rounds)
        update_result("first_executable", [row], "network", "lanes")
        seconds = [row[run][what] for run in ("cold", "again") for what in ("first", "good", "all")]
        table.add_row(
            network,
            *(f"{each:.1f}" for each in seconds),
            f"{row['cold']['saved'][0]['to_last']:.2f}",
            *(f"{each:.2f}" for each in row["session_seconds"].values()),
        )
    console().print(table)


if __name__ == "__main__":
    main()
