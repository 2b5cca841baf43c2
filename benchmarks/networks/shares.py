"""What each part of the search is worth: programs found without it, beside the one with all.

A program is made with everything, as `optimize` makes it, and one more without each part:
Winograd's filtering; chains; images whose channels are innermost in memory (layout); instances;
tiles of several units placed together (co-scheduling); all that is not one unit after another on
all lanes (concurrency); weights that are fetched before they are multiplied (prefetching); and our
kernels, so that units run TVM's own, untuned, one after another.
All run in turn, in fresh processes; a ratio above one is what the program without takes longer.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.table import Table

from benchmarks.report import model_of, read_figures, update_result
from relay_passes.search_options import SearchOptions
from runtime_ext.cpu.kernels.passes import Passes
from runtime_ext.execution.executable import Executable
from runtime_ext.kernels import artefact
from runtime_ext.machine.this_machine import available_lanes
from runtime_ext.peers.side_by_side import SideBySide, run_side_by_side
from runtime_ext.units import in_place, planner
from runtime_ext.units.layouts import AS_IS
from tvm_ios.api import Options, load, optimize
from tvm_ios.cli.frame.output import console, progress_bars
from tvm_ios.contest.pairs import ratio_over_processes
from tvm_ios.contest.rules import Rules
from tvm_ios.contest.verdict import pooled, ratio_of
from tvm_ios.models.source import ModelSource
from tvm_ios.policies.registry import policy_names

NETWORKS = ("squeezenet", "resnet50", "mobilenet_v2", "light_densenet121", "nasnet_a")
EVERYTHING = "everything"
#: Policies with instances, and those that place tiles of several units.
_INSTANCES, _TILES = {"graphturbo", "holistic"}, {"rammer", "ios-holistic", "holistic"}
#: What is left out: options of the search, and policies.
WITHOUT: Mapping[str, tuple[Mapping[str, Any], set[str]]] = {
    EVERYTHING: ({}, set()),
    "winograd": ({"winograd": "off"}, set()),
    "chains": ({"chains": False}, set()),
    "instances": ({}, _INSTANCES),
    "co-scheduling": ({}, _TILES),
    "concurrency": ({}, set(policy_names()) - {"sequential"}),
    "layout": ({}, set()),
    "prefetching": ({}, set()),
    "kernels": ({}, set(policy_names()) - {"sequential"}),
}
PARTS = tuple(part for part in WITHOUT if part != EVERYTHING)


def _switched_off(part: str) -> AbstractContextManager[Any]:
    """What there is no option for, switched off while the context lasts."""
    switched = ExitStack()
    if part == "layout":
        switched.enter_context(
            patch.object(in_place, "tensor_layouts", lambda graph, _: (AS_IS,) * len(graph.tensors))
        )
    if part == "prefetching":
        switched.enter_context(patch.object(Passes, "fetch", lambda *_: None))
        # Kernels that are kept are other ones.
        version = f"{artefact.SCHEDULE_VERSION} without prefetching"
        switched.enter_context(patch.object(artefact, "SCHEDULE_VERSION", version))
    if part == "kernels":
        switched.enter_context(patch.object(planner, "RULES", {}))
        switched.enter_context(patch.object(planner, "element_wise_rule", lambda *_: False))
    return switched


def measure(
    network: str, batch: int, folder: Path, rules: Rules, processes: int, parts: Sequence[str]
) -> dict[str, Any]:
    programs = (EVERYTHING, *parts)
    source = ModelSource(model_of(network), random_weights=0, batch=None if batch == 1 else batch)
    lanes = available_lanes()
    for part in programs:
        options, policies = WITHOUT[part]
        if (folder / part).exists():
            continue  # of a run that was stopped
        with progress_bars() as bars, _switched_off(part):
            optimize(
                source,
                folder / part,
                Options(
                    search=SearchOptions(lanes=lanes, **options),
                    policies=[name for name in policy_names() if name not in policies],
                    fallback=(),
                ),
                lambda what, done, total, part=part, bars=bars: bars(
                    f"without {part}: {what}", done, total
                ),
            )
    kept: dict[str, str] = {}
    for part in programs:
        executable = load(folder / part)
        assert isinstance(executable, Executable)
        kept[part] = executable.notes["kept"]
    runners = SideBySide(
        {part: folder / part for part in programs}, lanes, rules.shared_by(processes)
    )
    outcomes = [run_side_by_side(runners) for _ in range(processes)]
    samples = pooled([outcome.samples for outcome in outcomes])
    ratios = {
        part: ratio_over_processes([ratio_of(o.samples, part, EVERYTHING) for o in outcomes])
        for part in parts
    }
    return {
        **{"network": Path(network).stem, "batch": batch, "lanes": lanes, "kept": kept},
        "ms": {part: sorted(each)[len(each) // 2] * 1e3 for part, each in samples.items()},
        "without_to_with": {part: asdict(ratio) for part, ratio in ratios.items()},
    }


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    parts = dict.fromkeys(part for row in rows for part in row["without_to_with"])
    table = Table("network", "batch", "kept", "ms", *(f"without {part}" for part in parts))
    for row in rows:
        ratios = [row["without_to_with"].get(part) for part in parts]
        table.add_row(
            *(row["network"], str(row["batch"]), row["kept"][EVERYTHING]),
            f"{row['ms'][EVERYTHING]:.2f}",
            *(
                f"{r['median']:.2f} ({r['low']:.2f} to {r['high']:.2f})" if r else ""
                for r in ratios
            ),
        )
    console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="of the zoo, or light_...")
    parser.add_argument("--batch", type=int, nargs="+", default=[1], help="batch sizes")
    parser.add_argument("--folder", type=Path, default=Path("out/shares"), help="executables")
    parser.add_argument("--seconds", type=float, default=30.0, help="of all runs of a network")
    parser.add_argument("--processes", type=int, default=6, help="fresh ones that share them")
    parser.add_argument(
        "--without",
        nargs="+",
        choices=PARTS,
        default=PARTS,
        help="parts to leave out, one in each program",
    )
    parser.add_argument("--result", default="shares", help="file in benchmarks/results")
    parser.add_argument("--again", action="store_true", help="measure what the results have")
    given = parser.parse_args()
    done = {(row["network"], row["batch"]) for row in read_figures(given.result)}
    rules = Rules(rounds=240, seconds=given.seconds, minimum=12, warm_up=1)
    for batch in given.batch:
        for network in given.networks:
            if given.again or (Path(network).stem, batch) not in done:
                folder = given.folder / f"{Path(network).stem}-{batch}"
                if given.again:
                    shutil.rmtree(folder, ignore_errors=True)
                row = measure(network, batch, folder, rules, given.processes, given.without)
                print(json.dumps(row), flush=True)
                update_result(given.result, [row], "network", "batch")
    show(read_figures(given.result))


if __name__ == "__main__":
    main()
