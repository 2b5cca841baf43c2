"""The main job on every network: what was kept, and against what.

Each network is optimised in a process of its own by the command line; what it came to is written
at once, so that networks can be measured one by one. ``stages_measured`` is 0 where kernels and
measurements were in the cache.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

from report import light_model, read_figures, write_result
from rich.table import Table

from tvm_ios.cli.output import console

NETWORKS = ("squeezenet", "inception_v3", "nasnet_a", "randwire")
FILES = ("squeezenet", "inception_v1")


def optimize(model: str, folder: str, *options: str) -> dict[str, Any]:
    begin = time.perf_counter()
    command = [sys.executable, "-m", "tvm_ios", "optimize", model, "-o", folder, "--json", *options]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    done = json.loads(result.stdout)
    done["total_seconds"] = time.perf_counter() - begin
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=[*NETWORKS, *map(light_model, FILES)])
    parser.add_argument("--lanes", default="2")
    parser.add_argument("--output", default="out", help="folder of the executables")
    given = parser.parse_args()
    for model in given.networks:
        options = ["--lanes", given.lanes]
        if model.endswith(".onnx"):
            options += ["--random-weights", "0"]
        folder = f"{given.output}/bench-{model.rpartition('/')[2].removesuffix('.onnx')}"
        done = optimize(model, folder, *options)
        done["executable"] = None  # a path of this machine
        others = [row for row in read_figures("optimize") if row["model"] != done["model"]]
        path = write_result("optimize", [*others, done])
    figures = read_figures("optimize")
    table = Table(
        "network", "kept", "to sequential", "95 %", "to TVM", "error", "measured", "full", "time"
    )
    for row in figures:
        ratio, tvm = row["confirmed"]["sequential"], row["confirmed"]["tvm"]
        error = max(p["max_rel_error"] for p in row["policies"])
        table.add_row(
            row["model"],
            row["kept"],
            f"{ratio['ratio']:.3f}",
            f"{ratio['high']:.3f}",
            f"{tvm['ratio']:.3f}",
            f"{error:.1e}",
            str(row["search"]["stages_measured"]),
            str(row["search"]["candidates"]),
            f"{row['total_seconds']:.0f} s",
        )
    console().print(table)
    print(path)


if __name__ == "__main__":
    main()
