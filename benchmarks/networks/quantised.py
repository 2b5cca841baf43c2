"""Quantised networks: products in integers, beside floats and beside ONNX Runtime's eight bits.

ONNX Runtime's quantiser draws each network of the zoo in the format Q/DQ, weights by channel, with
ranges of three random inputs. Data are ``signed`` bytes with a zero point each, as its default is,
``unsigned`` ones, or ``symmetric``: signed ones whose zero point is zero. Programs run in turn in
one process on as many threads each; the figures are medians of the ratios of runs that follow one
another. ONNX Runtime is measured as it is by default, and with its precise kernels
(``session.x64quantprecision``): without VNNI the default ones add up products in 16 bits, which
overflow. OpenVINO takes part where it is installed. *Errors*
are to the precise ones, relative to the largest output.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from rich.table import Table

from benchmarks.report import update_result
from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relax.importer import import_onnx
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.build import build
from runtime_ext.peers.model_files import ModelFiles
from runtime_ext.peers.registry import installed_peers, start_peers
from tvm_ios.cli.frame.output import console
from tvm_ios.contest.pairs import paired_ratio
from tvm_ios.contest.rounds import run_in_turn
from tvm_ios.contest.rules import Rules
from tvm_ios.models.load import load_onnx
from tvm_ios.onnx.simplify import simplify
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.progress import silent

NETWORKS = ("squeezenet", "resnet50", "mobilenet_v2", "inception_v3")
FORMS = ("int8", "int16")
#: What the quantiser is asked for, by the data's bytes.
ACTIVATIONS: dict[str, dict[str, Any]] = {
    "signed": {},
    "unsigned": {"activation_type": "QUInt8"},
    "symmetric": {"extra_options": {"ActivationSymmetric": True}},
}
_PEERS = {"openvino": "OpenVINO"}


def quantised(network: str, folder: Path, activations: str = "signed") -> onnx.ModelProto:
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

    model = load_onnx(network)
    onnx.save(model, folder / "float.onnx")
    (port,) = model.graph.input
    shape = [dim.dim_value for dim in port.type.tensor_type.shape.dim]
    rng = np.random.default_rng(1)

    class Samples(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [{port.name: rng.standard_normal(shape, np.float32)} for _ in range(3)]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    logging.disable(logging.WARNING)
    options = dict(ACTIVATIONS[activations])
    if "activation_type" in options:
        options["activation_type"] = QuantType[options["activation_type"]]
    files = folder / "float.onnx", folder / "int8.onnx"
    quantize_static(*files, Samples(), per_channel=True, **options)
    logging.disable(logging.NOTSET)
    return onnx.load(folder / "int8.onnx")


def session(model: onnx.ModelProto, *, integers: bool, lanes: int) -> tuple[Any, dict[str, int]]:
    """A session of the sequential schedule, and how many units have products of which integers."""
    prepared = prepare(import_onnx(simplify(model)), "quantised")
    schedule = sequential_schedule(prepared.units)
    named: dict[int, str] = {}
    if integers:
        units = RelaxUnits(prepared, SearchOptions(lanes=lanes))
        compiler = units.backend.compiler
        for unit in range(len(prepared.units)):
            forms = compiler.rkernels(units.source((unit,)))
            named.update((unit, form) for form in reversed(FORMS) if form in forms)
        schedule = replace(schedule, kernels=named)
    return build(apply_schedule(prepared, schedule), lanes=lanes).session(), Counter(named.values())


def onnx_runtime(
    model: onnx.ModelProto, inputs: Any, lanes: int, *, precise: bool = False
) -> Callable[[], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = lanes
    if precise:
        options.add_session_config_entry("session.x64quantprecision", "1")
        level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.graph_optimization_level = level
    runner = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda: runner.run(None, inputs)[0]


def row_of(network: str, activations: str, rounds: int, lanes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        eight = quantised(network, folder, activations)
        row = _row_of(network, eight, folder / "int8.onnx", rounds, lanes)
        return {**row, "activations": activations}


def _row_of(
    network: str, eight: onnx.ModelProto, path: Path, rounds: int, lanes: int
) -> dict[str, Any]:
    ours, forms = session(eight, integers=True, lanes=lanes)
    inputs = ours.random_inputs(0)

    def run_of(runner: Any) -> Callable[[], Any]:
        runner.set_input(**inputs)
        return runner.run

    runs = {
        "integers": run_of(ours),
        "floats": run_of(session(eight, integers=False, lanes=lanes)[0]),
        "float network": run_of(session(load_onnx(network), integers=False, lanes=lanes)[0]),
        "ONNX Runtime": onnx_runtime(eight, inputs, lanes),
        "ONNX Runtime, precise": onnx_runtime(eight, inputs, lanes, precise=True),
        "ONNX Runtime, float network": onnx_runtime(load_onnx(network), inputs, lanes),
    }
    files = ModelFiles(inputs, lanes, path, None, None)
    installed = [name for name in installed_peers() if name in _PEERS]
    peers, _, _ = start_peers(installed, files, silent)
    runs |= {_PEERS[name]: peer.run for name, peer in peers.items()}
    seconds = run_in_turn(runs, Rules(rounds=rounds, warm_up=1))
    exact = runs["ONNX Runtime, precise"]()
    largest = float(np.abs(exact).max())
    ratios = {
        name: paired_ratio(seconds["integers"], other)
        for name, other in seconds.items()
        if name != "integers"
    }
    return {
        "network": network,
        "lanes": lanes,
        "forms": dict(forms),
        "milliseconds": float(np.median(seconds["integers"])) * 1e3,
        "ratios": {n: [r.median, r.low, r.high] for n, r in ratios.items()},
        "error": float(np.abs(ours.get_output() - exact).max()) / largest,
        "default_error": float(np.abs(runs["ONNX Runtime"]() - exact).max()) / largest,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="networks of the zoo")
    parser.add_argument("--rounds", type=int, default=31, help="runs of each program")
    parser.add_argument("--lanes", type=int, default=1, help="threads of each")
    parser.add_argument("--activations", nargs="+", choices=ACTIVATIONS, default=list(ACTIVATIONS))
    parser.add_argument(
        "--result", default="quantised", help="the file of results/ for another machine's figures"
    )
    arguments = parser.parse_args()
    rows = [
        row_of(network, activations, arguments.rounds, arguments.lanes)
        for network in arguments.networks
        for activations in arguments.activations
    ]
    others = list(rows[0]["ratios"])
    table = Table(
        "network",
        "activations",
        "lanes",
        "ms",
        *[f"to {name}" for name in others],
        "error",
        "ONNX Runtime's",
    )
    for row in rows:
        ratios = ("{:.2f} ({:.2f} to {:.2f})".format(*row["ratios"][name]) for name in others)
        errors = (f"{row[name]:.1e}" for name in ("error", "default_error"))
        table.add_row(
            *(row["network"], row["activations"], str(row["lanes"])),
            *(f"{row['milliseconds']:.2f}", *ratios, *errors),
        )
    console().print(table)
    update_result(arguments.result, rows, "network", "activations", "lanes")


if __name__ == "__main__":
    main()
