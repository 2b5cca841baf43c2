"""Seconds of a core that ``stats`` and a search for the described V100 take, network by network."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from typing import Any

from benchmarks.report import update_result

#: The networks that publications on scheduling measure, the quick ones first.
NETWORKS = (
    *("ios_figure_2", "resnet18_tailor", "alexnet", "resnet34", "vgg16", "dlrm"),
    *("darts", "nasnet_a_mobile", "nasnet_a_cifar", "amoebanet_a", "conformer", "vit_base"),
    *("bert_128", "bert_256", "bert_384", "bert_512"),
    *("hrnet_w18_small_v1_256", "hrnet_w18_small_v2_256", "hrnet_w32_256"),
    *("resnext29_branches", "deepspeech2", "seq2seq", "resnext101_branches", "lstm_tc_gates"),
)

_DEVICE = ("--cost", "v100", "--engine", "ios")


def command(*arguments: str) -> tuple[dict[str, Any], float]:
    """What a command prints as JSON, and its seconds of a core."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "tvm_ios", *arguments, "--json"], stdout=subprocess.PIPE, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(done.stdout), spent


def measure(model: str) -> dict[str, Any]:
    stats, stats_seconds = command("stats", model)
    sequential, _ = command("schedule", model, *_DEVICE, "--policy", "sequential")
    scheduled, schedule_seconds = command("schedule", model, *_DEVICE)
    return {
        "model": model,
        "units": stats["total"]["operators"],
        "blocks": len(stats["blocks"]),
        "policy": scheduled["policy"],
        "stats_seconds": stats_seconds,
        "schedule_seconds": schedule_seconds,
        "sequential_ms": sequential["latency_ms"],
        "latency_ms": scheduled["latency_ms"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="of the zoo")
    for model in parser.parse_args().networks:
        row = measure(model)
        print(json.dumps(row), flush=True)
        update_result("networks", [row], "model")


if __name__ == "__main__":
    main()
