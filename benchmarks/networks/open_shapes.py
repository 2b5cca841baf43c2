"""One program for all shapes beside our programs of one shape, ONNX Runtime and OpenVINO.

Each network is compiled once for its range, and once for each shape; ONNX Runtime and OpenVINO have
one session each, of the model with open dimensions. At each shape all run in turn. Networks are
those of :mod:`benchmarks.networks.packaged` and :mod:`benchmarks.networks.open_models`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from rich.table import Table

from benchmarks.networks.open_models import save
from benchmarks.networks.packaged import PACKAGED
from benchmarks.report import read_figures, update_result
from runtime_ext.fresh_process import end_with_parent
from tvm_ios.cli.frame.output import console
from tvm_ios.files.atomic import temporary_folder

NAME = "shapes_of_networks"
#: Programs of each shape are compared after all with those of others, and rounds are few: most of
#: the time is that of compiling them.
_RULES = ("--verify=off", "--processes=2", "--rounds=40", "--seconds=8")
_OTHERS = ("exact", "onnxruntime", "openvino")
#: Differences to ONNX Runtime's outputs that are rounding, relative to the largest output.
_ROUNDING = 1e-3


@dataclass(frozen=True)
class Network:
    """A network with open dimensions: its range, as ``--shape`` has it, and shapes in it."""

    range: str
    shapes: tuple[tuple[int, ...], ...]


_TEXTS = ((1, 7), (1, 31), (1, 128), (8, 31), (8, 128), (1, 512), (32, 16))
#: Heights and widths.
_SIZES = ((320, 320), (416, 640), (640, 640))
_IMAGES = "input:1..32,3,224,224"

NETWORKS: Mapping[str, Network] = {
    "minilm": Network("input_ids:1..32,1..512", _TEXTS),
    "bert_small": Network("input_ids:1..32,1..512", _TEXTS),
    "bert_base": Network("input_ids:1..32,1..512", ((1, 31), (1, 128), (8, 128))),
    "albert": Network("input_ids:1,1..512", ((16,), (77,), (200,), (512,))),
    "ppocr_rec": Network(
        "x:1..8,3,48,64..1024:8", ((1, 64), (1, 104), (1, 320), (1, 1024), (8, 320))
    ),
    "captcha": Network("input1:1,1,64,64..1024:8", ((64,), (104,), (320,), (1024,))),
    "crnn": Network(
        "line:1..8,1,32,64..1024:4", ((1, 64), (1, 100), (1, 320), (1, 1024), (8, 100))
    ),
    "yolov8n": Network("images:1,3,64..640:32,64..640:32", _SIZES),
    "ppocr_det": Network("x:1,3,32..960:32,32..960:32", _SIZES),
    "unet": Network("input:1,3,64..640:16,64..640:16", _SIZES),
    # 0.5, 1 and 7.3 seconds.
    "speech_front": Network("samples:1,400..160000", ((8_000,), (16_000,), (116_800,))),
    "resnet50": Network(_IMAGES, ((1,), (3,), (8,))),
    "mobilenet_v2": Network(_IMAGES, ((1,), (2,), (3,), (8,), (32,))),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), choices=[*NETWORKS, []])
    parser.add_argument("--lanes", type=int, nargs="*", default=[1, 2])
    given = parser.parse_args()
    done = [measured(network, lanes) for network in given.networks for lanes in given.lanes]
    print_rows([row for row in read_figures(NAME) if row["network"] in given.networks])
    sys.exit(not all(done))


def measured(name: str, lanes: int) -> bool:
    """Measure a network and write its rows; return whether it could be, and says why not."""
    network = NETWORKS[name]
    with temporary_folder() as folder:
        output = folder / "bench.json"
        try:
            command = [sys.executable, "-m", "tvm_ios", "bench", str(_model(name, folder)), *_RULES]
        except FileNotFoundError as error:
            console().print(f"{name} is left out: {error}")
            return False
        command += ["--at", ",".join("x".join(map(str, shape)) for shape in network.shapes)]
        command += [f"--against={','.join(_OTHERS)}", f"--lanes={lanes}", f"--output={output}"]
        command.append(f"--shape={network.range}")
        # A process of its own: TVM fixes its number of threads when it is loaded.
        code = subprocess.run(command, preexec_fn=partial(end_with_parent, os.getpid())).returncode
        networks = json.loads(output.read_text())["networks"] if output.exists() else []
    rows = [{"network": name, "lanes": lanes, **_row(network)} for network in networks]
    different = [row for row in rows if row["error"] > _ROUNDING]
    for row in different:
        console().print(f"{name} at {row['shape']} differs from ONNX Runtime by {row['error']:.1e}")
    if code == 0 and not different:
        update_result(NAME, rows, "network", "lanes")
    return code == 0 and not different


def _row(network: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a shape in a document of ``tvm-ios bench``."""
    times = network["latency_ms"]
    return {
        "shape": [int(extent) for extent in network["at"].split("x")],
        "error": network["max_rel_error"]["ours"],
        "seconds": {"open": times["ours"] / 1e3, **{name: times[name] / 1e3 for name in _OTHERS}},
        "open_to": {name: network["ratio"][name] for name in _OTHERS},
    }


def _model(name: str, folder: Path) -> Path:
    """Return the file of a network: of a package, or drawn into a folder."""
    packaged = PACKAGED.get(name)
    if packaged is not None:
        return packaged.required_path()
    path = folder / f"{name}.onnx"
    save(name, str(path))
    return path


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the ratios of open programs to the others, and their geometric means."""
    table = Table("network", "lanes", "shape", "ms", "to exact", "to ORT", "to OpenVINO", "to best")
    best: list[float] = []
    for row in rows:
        ratios = [row["open_to"][other]["median"] for other in _OTHERS]
        best.append(max(ratios[1:]))
        table.add_row(
            row["network"],
            str(row["lanes"]),
            "x".join(map(str, row["shape"])),
            f"{row['seconds']['open'] * 1e3:.2f}",
            *(f"{ratio:.2f}" for ratio in (*ratios, best[-1])),
        )
    console().print(table)
    if best:
        mean = geometric_mean(best)
        console().print(f"geometric mean to the best peer: {mean:.3f}, the worst {max(best):.2f}")


if __name__ == "__main__":
    main()
