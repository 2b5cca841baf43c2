"""Requests a second: ours, as `optimize --objective throughput` keeps it, beside other runtimes.

ONNX Runtime runs a session of one thread for each lane, and one session of all threads; OpenVINO
runs its PERFORMANCE_HINT=THROUGHPUT with an asynchronous queue. So many requests are always in
flight. All serve in turn, the same inputs; a sample is many requests. That is what
`tvm-ios bench --objective throughput` does.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.report import update_result
from relay_passes import SearchOptions
from runtime_ext.machine.this_machine import available_lanes
from runtime_ext.peers.registry import peers_to_compare
from tvm_ios.api import Options
from tvm_ios.bench.throughput import ServedResult, bench_throughput
from tvm_ios.contest.rules import BENCH, Rules

NETWORKS = ("squeezenet", "shufflenet_v2", "mobilenet_v2", "densenet121", "resnet50")


def rows(result: ServedResult, lanes: int) -> list[dict[str, Any]]:
    """A row a way to serve requests."""
    return [
        {
            **{"network": result.model, "way": way, "lanes": lanes, "in_flight": result.in_flight},
            "requests_a_second": rate,
            **{"p50_ms": result.p50[way] * 1e3, "p99_ms": result.p99[way] * 1e3},
            **{"requests": result.requests[way], "max_rel_error": result.max_rel_error[way]},
            **(
                {"ours_to_it": asdict(result.ratio[way])}
                if way in result.ratio
                else {"kept": result.kept, "policy": result.policy, "workers": result.workers}
            ),
        }
        for way, rate in result.requests_a_second.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="of the zoo")
    parser.add_argument("--folder", type=Path, default=Path("out/throughput"), help="executables")
    parser.add_argument("--seconds", type=float, default=BENCH.seconds, help="for each network")
    parser.add_argument("--in-flight", type=int, help="requests, by default two a lane")
    parser.add_argument("--policy", help="what `optimize` tries, by default all")
    given = parser.parse_args()
    lanes = available_lanes()
    for network in given.networks:
        result = bench_throughput(
            network,
            peers_to_compare(with_log=False, serving=True),
            given.folder / network,
            rules=Rules(rounds=1000, seconds=given.seconds, hopeless_seconds=given.seconds),
            options=Options(
                search=SearchOptions(lanes=lanes),
                policies=given.policy and given.policy.split(","),
            ),
            in_flight=given.in_flight,
        )
        for peer, reason in result.failed.items():
            print(f"{network} on {peer}: {reason}")
        for row in rows(result, lanes):
            print(json.dumps(row), flush=True)
        update_result("throughput", rows(result, lanes), "network", "way")


if __name__ == "__main__":
    main()
