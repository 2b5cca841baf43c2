"""Weights in bfloat16 beside float32: networks, and single products with constant matrices.

Both programs run one unit after another in one process, in turn, each unit in the form that was the
fastest when it was measured by itself; in bfloat16 only the units for which this is faster are
rounded. ``product-ROWSxDEPTHxCOLUMNS`` is a single product.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from rich.table import Table

from benchmarks.in_turn import compared, measure_networks, session_runner, shown
from benchmarks.report import model_of
from relay_passes.measured_module import measured_module
from relay_passes.pipeline import prepare
from relay_passes.relax.importer import import_onnx
from relay_passes.search_options import SearchOptions
from tvm_ios.cli.frame.output import console
from tvm_ios.contest.outputs import output_errors
from tvm_ios.models.load import load_onnx
from tvm_ios.models.source import ModelSource
from tvm_ios.program.bfloat16 import FORM

PRODUCTS = (*(f"product-{n}x4096x4096" for n in (1, 4, 16, 64)), "product-1x512x1024")
NETWORKS = ("alexnet", "vgg16", "resnet50", "squeezenet", *PRODUCTS)
_PRODUCT = re.compile(r"product-(\d+)x(\d+)x(\d+)")
_MIB = 2**20


def measure(network: str, lanes: int) -> dict[str, Any]:
    of_product = _PRODUCT.fullmatch(network)
    if of_product:
        model = _product(*map(int, of_product.groups()))
    else:
        model = load_onnx(ModelSource(model_of(network), random_weights=0))
    prepared = prepare(import_onnx(model))
    sessions: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    weights: dict[str, float] = {}
    rounded = 0
    for precision in ("float32", FORM):
        options = SearchOptions(lanes=lanes, precision=precision)
        module = measured_module(prepared, options, None)
        schedule = module.search.find("sequential").schedule
        built = module.build(schedule)
        rounded = sum(name == FORM for name in schedule.kernels.values())
        sessions[precision] = session = built.session()
        session.run(**session.random_inputs(0))
        outputs[precision] = [session.get_output()]
        weights[precision] = sum(array.nbytes for array in built.constants.values()) / _MIB
    usual, rounding = map(session_runner, sessions.values())
    ratio, seconds = compared(usual, rounding, 301, 20.0)
    return {
        **{"lanes": lanes, "load": os.getloadavg()[0]},
        **{"units": len(prepared.units), "rounded": rounded},
        "ratio": asdict(ratio),
        **dict(zip(("float32_ms", "bfloat16_ms"), (s * 1e3 for s in seconds), strict=True)),
        **{f"{precision}_mib": mib for precision, mib in weights.items()},
        "error": output_errors(outputs[FORM], outputs["float32"])[1],
    }


def _product(rows: int, depth: int, columns: int) -> Any:
    weight = np.random.default_rng(0).standard_normal((depth, columns), np.float32) / depth**0.5
    of = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weight"], ["y"])],
        "product",
        [of("x", TensorProto.FLOAT, (rows, depth))],
        [of("y", TensorProto.FLOAT, (rows, columns))],
        [numpy_helper.from_array(weight.astype(np.float32), "weight")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def show(figures: Sequence[dict[str, Any]]) -> None:
    table = Table(
        *("network", "lanes", "load", "units rounded", "weights", "in float32"),
        *("to float32", "bfloat16", "float32", "difference"),
    )
    for row in figures:
        table.add_row(
            *(row["network"], str(row["lanes"]), f"{row['load']:.1f}"),
            f"{row['rounded']} of {row['units']}",
            *(f"{row[field]:.1f} MiB" for field in ("bfloat16_mib", "float32_mib")),
            shown(row["ratio"]),
            *(f"{row[field]:.3f} ms" for field in ("bfloat16_ms", "float32_ms")),
            f"{row['error']:.0e}",
        )
    console().print(table)


if __name__ == "__main__":
    measure_networks("bfloat16", __doc__, NETWORKS, measure, show)
