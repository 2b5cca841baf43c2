"""Untuned kernels, one unit after another, against ONNX Runtime on as many threads."""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from report import light_model, write_result
from rich.table import Table

from relay_passes import IOSSchedule
from relay_passes.relax.importer import import_onnx
from runtime_ext.build import build
from runtime_ext.contest import Rules, hold_contest
from runtime_ext.machine import available_lanes
from tvm_ios.cli.output import console
from tvm_ios.models import load_onnx
from tvm_ios.paired import paired_ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    real = [light_model("squeezenet"), light_model("inception_v1")]
    parser.add_argument("networks", nargs="*", default=[*real, "resnet50"])
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    lanes = available_lanes()
    figures = []
    for model in given.networks:
        proto = load_onnx(model, 0)
        module = IOSSchedule("sequential")(import_onnx(proto))
        session = build(module, lanes=lanes).session()
        inputs = session.random_inputs(0)
        session.run(**inputs)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = lanes
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.onnx"
            file.write_bytes(proto.SerializeToString())
            other = onnxruntime.InferenceSession(
                str(file), options, providers=["CPUExecutionProvider"]
            )
        reference = other.run(None, inputs)[0]
        error = float(np.max(np.abs(session.get_output() - reference)) / np.max(np.abs(reference)))
        runners = {"ours": session.run, "onnxruntime": lambda o=other, x=inputs: o.run(None, x)}
        samples = hold_contest(runners, Rules(rounds=200, seconds=given.seconds, minimum=20))
        ratio = paired_ratio(samples["ours"], samples["onnxruntime"])
        figures.append(
            {
                "model": Path(model).stem,
                "ours_ms": statistics.median(samples["ours"]) * 1e3,
                "onnxruntime_ms": statistics.median(samples["onnxruntime"]) * 1e3,
                "ratio": ratio.median,
                "low": ratio.low,
                "high": ratio.high,
                "pairs": ratio.pairs,
                "max_rel_error": error,
            }
        )
    table = Table("network", "ours", "ONNX Runtime", "ratio", "95 %", "error")
    for row in figures:
        table.add_row(
            row["model"],
            f"{row['ours_ms']:.2f} ms",
            f"{row['onnxruntime_ms']:.2f} ms",
            f"{row['ratio']:.3f}",
            f"{row['low']:.3f} to {row['high']:.3f}",
            f"{row['max_rel_error']:.1e}",
        )
    console().print(table)
    mean = math.exp(statistics.fmean(math.log(row["ratio"]) for row in figures[:2]))
    print(f"geometric mean of the first two: {mean:.3f}")
    print(write_result("against_onnxruntime", figures))


if __name__ == "__main__":
    main()
