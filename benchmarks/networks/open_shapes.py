"""One program for all shapes beside our programs of one shape, ONNX Runtime and OpenVINO.

Each network is compiled once for its range, and once for each shape; ONNX Runtime and OpenVINO have
one session each, of the model with open dimensions. At each shape all run in turn. Networks are
those of :mod:`benchmarks.networks.packaged`, and encoders with random weights; those whose packages
are not there are left out, and said so.
"""

# OpenVINO's stubs lack properties.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.networks.open_models import save
from benchmarks.networks.packaged import PACKAGED, Packaged
from benchmarks.report import read_figures, update_result
from runtime_ext.execution.bound_model import onnx_feeds, onnx_session
from runtime_ext.fresh_process import end_with_parent
from tvm_ios.cli.frame.output import console
from tvm_ios.contest.outputs import Verify, output_errors
from tvm_ios.contest.pairs import paired_ratio
from tvm_ios.contest.rounds import run_in_turn
from tvm_ios.contest.rules import Rules
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.models.source import ModelSource
from tvm_ios.shapes.ranges import parse_ranges, shapes_at

NAME = "shapes_of_networks"
_RULES = Rules(rounds=60, seconds=6.0, minimum=6, warm_up=1)
#: Differences to ONNX Runtime's outputs that are rounding, relative to the largest output.
_ROUNDING = 1e-3


@dataclass(frozen=True)
class Network:
    """A network with open dimensions.

    ``ranges`` are as ``--shape`` has them, and ``shapes`` the values of open dimensions, in order;
    ``words`` is the number of words that integer inputs may be, and ``file`` that of a package, if
    it is none of :data:`PACKAGED` and of :data:`benchmarks.networks.open_models.MODELS`.
    """

    ranges: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    words: int = 2
    file: Packaged | None = None


def _texts(shapes: tuple[tuple[int, ...], ...], words: int, batch: str = "1..32") -> Network:
    inputs = ("input_ids", "attention_mask")
    return Network(tuple(f"{name}:{batch},1..512" for name in inputs), shapes, words)


_TEXTS = ((1, 7), (1, 31), (1, 128), (8, 31), (8, 128), (1, 512), (32, 16))
#: Heights and widths, and batches, of images.
_SIZES = ((320, 320), (416, 640), (640, 640))
_IMAGES = Network(("input:1..32,3,224,224",), ((1,), (2,), (3,), (8,), (32,)))

NETWORKS: Mapping[str, Network] = {
    "minilm": _texts(_TEXTS, 30_000),
    "bert_small": _texts(_TEXTS, 30_000),
    "bert_base": _texts(_TEXTS[1:5], 30_000),
    "albert": _texts(((16,), (77,), (200,), (512,)), 591, batch="1"),
    "ppocr_rec": Network(
        ("x:1..8,3,48,64..1024:8",), ((1, 64), (1, 104), (1, 320), (1, 1024), (8, 320))
    ),
    "captcha": Network(("input1:1,1,64,64..1024:8",), ((64,), (104,), (320,), (1024,))),
    "crnn": Network(
        ("line:1..8,1,32,64..1024:4",), ((1, 64), (1, 100), (1, 320), (1, 1024), (8, 100))
    ),
    "yolov8n": Network(("images:1,3,64..640:32,64..640:32",), _SIZES),
    "ppocr_det": Network(("x:1,3,32..960:32,32..960:32",), _SIZES),
    "unet": Network(("input:1,3,64..640:16,64..640:16",), _SIZES),
    # 0.5, 1 and 7.3 seconds.
    "speech_front": Network(("samples:1,400..160000",), ((8_000,), (16_000,), (116_800,))),
    "mel": Network(
        ("input:1,1024..160000",),
        ((8_000,), (16_000,), (116_800,)),
        file=Packaged("openwakeword", "resources/models/melspectrogram.onnx"),
    ),
    "resnet50": _IMAGES,
    "mobilenet_v2": _IMAGES,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), choices=[*NETWORKS, []])
    parser.add_argument("--lanes", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        try:
            rows = measure(given.networks[0], given.lanes[0])
        except (UserError, FileNotFoundError) as error:
            sys.exit(f"{given.networks[0]} is left out: {error}")
        update_result(NAME, rows, "network", "lanes")
        return
    codes = [0]
    for network in given.networks:
        for lanes in given.lanes:
            # A process each: TVM fixes its number of threads when it is loaded.
            command = [sys.executable, "-m", "benchmarks.networks.open_shapes", network]
            command += ["--lanes", str(lanes), "--child"]
            environment = {**os.environ, "TVM_NUM_THREADS": str(lanes)}
            end = partial(end_with_parent, os.getpid())
            codes.append(subprocess.run(command, env=environment, preexec_fn=end).returncode)
    print_rows([row for row in read_figures(NAME) if row["network"] in given.networks])
    sys.exit(max(map(abs, codes)))


def measure(name: str, lanes: int) -> list[dict[str, Any]]:
    """Return the times of a network's runners at each shape."""
    from relay_passes.search_options import SearchOptions
    from tvm_ios.api import Options, load, optimize, optimize_range

    network = NETWORKS[name]
    # Outputs are compared below, at each shape.
    options = Options(
        search=SearchOptions(lanes=lanes),
        policies=("sequential",),
        verify=Verify.off,
        beside_tvm=False,
    )
    rows: list[dict[str, Any]] = []
    with temporary_folder() as folder:
        path = _model(name, folder)
        made = optimize_range(str(path), parse_ranges(network.ranges), folder / "open", options)
        executable = load(folder / "open")
        opened = executable.session()
        onnxruntime = onnx_session(path, lanes)
        openvino = openvino_model(path, lanes).create_infer_request()
        for shape in network.shapes:
            shapes = shapes_at({port.name: port.shape for port in executable.inputs}, shape)
            exact_path = folder / "x".join(map(str, shape))
            optimize(ModelSource(str(path), shapes=shapes), exact_path, options)
            exact = load(exact_path).session()
            inputs = _inputs(network, exact)
            runners: dict[str, Callable[[], Any]] = {
                "open": _ours(opened, inputs),
                "exact": _ours(exact, inputs),
                "onnxruntime": _in_place(onnxruntime, inputs),
                "openvino": _bound(openvino, inputs),
            }
            expected = onnxruntime.run(None, onnx_feeds(onnxruntime, inputs))
            opened.run()
            outputs = [opened.get_output(port) for port in range(len(expected))]
            error = output_errors(outputs, expected)[1]
            if error > _ROUNDING:
                raise UserError(f"at {shape} it differs from ONNX Runtime by {error:.1e}")
            samples = run_in_turn(runners, _RULES)
            exact.close()
            ratios = {
                other: paired_ratio(samples["open"][: len(times)], times).to_json()
                for other, times in samples.items()
                if other != "open"
            }
            row = {
                **{"network": name, "lanes": lanes, "shape": list(shape), "error": error},
                "seconds": {runner: float(np.median(times)) for runner, times in samples.items()},
                "open_to": ratios,
                "build_seconds": sum(made.seconds.values()),
            }
            rows.append(row)
            told = " ".join(f"{other} {ratio['ratio']:.2f}" for other, ratio in ratios.items())
            console().print(f"{name} {shape} on {lanes}: open to {told}")
    return rows


def _model(name: str, folder: Path) -> Path:
    """Return the file of a network: of a package, or drawn into a folder."""
    packaged = NETWORKS[name].file or PACKAGED.get(name)
    if packaged is not None:
        return packaged.required_path()
    path = folder / f"{name}.onnx"
    save(name, str(path))
    return path


def _inputs(network: Network, session: Any) -> dict[str, Array]:
    """Return random inputs: words, with masks of ones."""
    inputs = session.random_inputs(0)
    generator = np.random.default_rng(0)
    for name, value in inputs.items():
        if value.dtype.kind == "i":
            words = generator.integers(0, network.words, value.shape)
            inputs[name] = (np.ones_like(value) if "mask" in name else words).astype(value.dtype)
    return inputs


def _ours(session: Any, inputs: Mapping[str, Array]) -> Callable[[], Any]:
    session.set_input(**inputs)
    return session.run


def _in_place(session: Any, inputs: Mapping[str, Array]) -> Callable[[], Any]:
    """Return a run of ONNX Runtime whose inputs lie in its own memory."""
    import onnxruntime

    binding = session.io_binding()
    for name, array in onnx_feeds(session, inputs).items():
        value = onnxruntime.OrtValue.ortvalue_from_numpy(array, "cpu", 0)
        binding.bind_ortvalue_input(name, value)
    for port in session.get_outputs():
        binding.bind_output(port.name, "cpu")
    return partial(session.run_with_iobinding, binding)


def openvino_model(path: Path, threads: int, *, streams: int = 1) -> Any:
    """Return a model compiled by OpenVINO for one request on all threads, or one on each stream."""
    import openvino
    from openvino import properties
    from openvino.properties import hint

    settings = {
        hint.performance_mode: hint.PerformanceMode.LATENCY,
        hint.inference_precision: openvino.Type.f32,
        properties.inference_num_threads: threads,
    }
    if streams > 1:
        settings[hint.performance_mode] = hint.PerformanceMode.THROUGHPUT
        settings[properties.num_streams] = streams
    return openvino.Core().compile_model(str(path), "CPU", settings)


def _bound(request: Any, inputs: Mapping[str, Array]) -> Callable[[], Any]:
    import openvino

    for name, value in inputs.items():
        request.set_tensor(name, openvino.Tensor(np.ascontiguousarray(value)))

    def run() -> None:
        request.start_async()
        request.wait()

    return run


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the ratios of open programs to the others, and their geometric means."""
    table = Table("network", "lanes", "shape", "ms", "to exact", "to ORT", "to OpenVINO", "to best")
    best: list[float] = []
    for row in rows:
        ratios = [row["open_to"][other]["ratio"] for other in ("exact", "onnxruntime", "openvino")]
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
