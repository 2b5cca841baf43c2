"""How steady latencies are beside other work: ours, ONNX Runtime's and OpenVINO's, in turn.

Each case has other processes that never wait, plain ones or with ``nice 19``, or a quota of
processor time as containers have. All runners live in one process and run in turn, after a run
that is not counted. The quota takes a cgroup that this process may make, as root may.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.busy_processes import busy_processes
from benchmarks.report import model_of, update_result
from relay_passes.search_options import SearchOptions
from runtime_ext.machine.this_machine import available_lanes
from runtime_ext.peers.side_by_side import SideBySide, run_side_by_side
from tvm_ios.api import Options
from tvm_ios.bench.material import ONNX, prepare_material
from tvm_ios.cli.frame.output import console, progress_bars
from tvm_ios.contest.pairs import ratio_over_processes
from tvm_ios.contest.rules import Rules
from tvm_ios.contest.verdict import pooled, ratio_of
from tvm_ios.models.source import ModelSource

NETWORKS = ("squeezenet", "resnet50", "light_shufflenet", "light_densenet121")
OURS, PEERS = "ours", ("onnxruntime", "openvino")
#: Other processes of each case, and what they add to their niceness.
BUSY: Mapping[str, tuple[int, int]] = {
    "quiet": (0, 0),
    **{f"{count} busy": (count, 0) for count in (1, 2, 4)},
    **{f"{count} niced": (count, 19) for count in (1, 2, 4)},
}
QUOTA_CPUS = 1.5
QUOTA = f"quota of {QUOTA_CPUS} CPUs"


@contextmanager
def quota(cpus: float) -> Iterator[None]:
    """This process and those that it starts in a cgroup of so much processor time.

    Raises
    ------
    OSError
        If this process may not make one.
    """
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    mine = dict(line.split(":", 2)[1:] for line in lines)
    controller = next((name for name in mine if "cpu" in name.split(",")), "")
    root = Path("/sys/fs/cgroup", controller)
    parent = root / mine[controller].lstrip("/")
    if not parent.exists():
        # Containers often see their own group as the root.
        parent = root
    group = parent / f"steadiness-{os.getpid()}"
    group.mkdir()
    try:
        period = 100_000
        if controller:
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text(str(int(cpus * period)))
        else:
            (group / "cpu.max").write_text(f"{int(cpus * period)} {period}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (parent / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def measure(
    network: str, case: str, folder: Path, peers: Sequence[str], rules: Rules, processes: int
) -> dict[str, Any]:
    """Latencies of all runners in one case, and ours to those of peers."""
    lanes, rules = available_lanes(), rules.shared_by(processes)
    runners = SideBySide({OURS: folder / OURS}, lanes, rules, peers, onnx=folder / ONNX)
    with ExitStack() as stack:
        stack.enter_context(quota(QUOTA_CPUS) if case == QUOTA else busy_processes(*BUSY[case]))
        outcomes = [run_side_by_side(runners) for _ in range(processes)]
    samples = pooled([outcome.samples for outcome in outcomes])
    ratios = {
        peer: ratio_over_processes([ratio_of(o.samples, OURS, peer) for o in outcomes])
        for peer in peers
    }
    return {
        **{"network": Path(network).stem, "case": case, "lanes": lanes},
        **{
            f"p{q}_ms": {r: float(np.percentile(each, q)) * 1e3 for r, each in samples.items()}
            for q in (50, 99)
        },
        "runs": len(samples[OURS]),
        "ours_to_it": {peer: asdict(ratio) for peer, ratio in ratios.items()},
    }


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    peers = list(rows[0]["ours_to_it"])
    table = Table("network", "case", "p50 ms", "p99 ms", *(f"{p} {q}" for p in peers for q in _OF))
    for row in rows:
        cells: list[str] = []
        for peer in peers:
            ratio = row["ours_to_it"][peer]
            tail = row["p99_ms"][OURS] / row["p99_ms"][peer]
            cells += [f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"]
            cells += [f"{tail:.2f}"]
        ours = (f"{row[quantile][OURS]:.2f}" for quantile in ("p50_ms", "p99_ms"))
        table.add_row(row["network"], row["case"], *ours, *cells)
    console().print(table)


_OF = ("median", "p99")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="of the zoo, or light_...")
    parser.add_argument("--folder", type=Path, default=Path("out/bench"), help="kept by `bench`")
    parser.add_argument("--case", action="append", choices=[*BUSY, QUOTA], help="by default all")
    parser.add_argument("--seconds", type=float, default=18.0, help="of each case")
    parser.add_argument("--processes", type=int, default=3, help="fresh ones that share them")
    given = parser.parse_args()
    peers = [peer for peer in PEERS if find_spec(peer) is not None]
    rules = Rules(rounds=600, seconds=given.seconds, minimum=12, warm_up=1)
    options = Options(search=SearchOptions(lanes=available_lanes()))
    rows: list[dict[str, Any]] = []
    for network in given.networks:
        folder = given.folder / Path(network).stem
        source = ModelSource(model_of(network), random_weights=0)
        with progress_bars() as bars:
            prepare_material(source, folder, options, tvm_build=False, progress=bars)
        for case in given.case or [*BUSY, QUOTA]:
            try:
                row = measure(network, case, folder, peers, rules, given.processes)
            except PermissionError as error:
                print(f"left out: {case}: {error}", file=sys.stderr)
                continue
            rows.append(row)
            print(json.dumps(row), flush=True)
            update_result("steadiness", rows, "network", "case")
    show(rows)


if __name__ == "__main__":
    main()
