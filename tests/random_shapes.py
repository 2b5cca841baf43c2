"""Programs of ranges at many random shapes, beside ONNX Runtime.

``python -m tests.random_shapes --shapes 10000`` compiles each network for its range, runs it at
random shapes on one and two lanes and by the poisoning executor, and compares all outputs. A
network that has no program of a range is told with the sentence that refuses it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

from benchmarks.networks.open_models import encoder
from benchmarks.networks.packaged import PACKAGED
from tests.dynamic_models import detection, dynamic
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.shapes.extent import at_values


@dataclass(frozen=True)
class Case:
    """A network, drawn or of a package, its ranges, and the numbers that its words may be."""

    draw: Callable[[], Any] | None
    ranges: tuple[str, ...]
    words: int = 2


def _words(draw: Callable[[], Any] | None, *names: str, most: int = 32, words: int = 50) -> Case:
    return Case(draw, tuple(f"{name}:1..8,1..{most}" for name in names), words)


CASES: Mapping[str, Case] = {
    "bert": _words(dynamic.bert, "input_ids", "attention_mask"),
    "encoder": _words(lambda: encoder(2, 64, 4, 100), "input_ids", "attention_mask", most=200),
    "tagger": Case(dynamic.tagger, ("words:1..8,1..40",), 50),
    "speech": Case(dynamic.speech, ("samples:1,40..2000",)),
    "unet": Case(dynamic.unet, ("image:1,3,16..128:8,16..128:8",)),
    "unet, any size": Case(dynamic.unet, ("image:1,3,16..90,16..90",)),
    "dbnet": Case(detection.dbnet, ("image:1,3,32..160:32,32..160:32",)),
    "minilm": _words(None, "input_ids", "attention_mask", most=256, words=30_000),
    "minilm_int8": _words(None, "input_ids", "attention_mask", "token_type_ids", most=128, words=2),
    "ppocr_det": Case(None, ("x:1,3,32..320:32,32..320:32",)),
    "ppocr_rec": Case(None, ("x:1..4,3,48,64..400:8",)),
    "ppocr_cls": Case(None, ("x:1..8,3,48,192",)),
    "yolov8n": Case(None, ("images:1,3,64..320:32,64..320:32",)),
    "dnsmos": Case(None, ("input_1:1..4,900,120",)),
    "basic_pitch": Case(None, ("serving_default_input_2:0:1..3,43844,1",)),
    "magika": Case(None, ("bytes:1..16,2048",), 256),
    "wake_word_lstm": Case(None, ("input_1:1..8,16,96",)),
    "denoiser_gru": Case(None, ("input:1..4,1..200,161",)),
    "tashkeel_lstm_int8": Case(None, ("input_ids:1..4,1..100",), 30),
    "khmer_tagger": Case(None, ("x:1,1..100", "mask:1,1..100"), 30),
    "smart_turn_int8": Case(None, ("input_features:1..4,80,800",)),
    "captcha_lstm_int8": Case(None, ("input1:1,1,64,64..320:16",)),
}


def compared(name: str, shapes: int, seed: int = 0) -> tuple[float, str]:
    """Return the largest error of a network at so many shapes, and the first difference or "".

    Raise UserError if it has no program of its range.
    """
    from relay_passes.search_options import SearchOptions
    from runtime_ext.execution.executable import load
    from runtime_ext.verification.onnx_outputs import reference_session
    from tvm_ios.api import Options, optimize_range
    from tvm_ios.contest.outputs import Verify, difference, output_errors
    from tvm_ios.contest.tolerance import rounds, tolerance
    from tvm_ios.schedule.first_difference import kinds
    from tvm_ios.shapes.ranges import parse_ranges

    case = CASES[name]
    largest, different = 0.0, ""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        path = Path(folder) / "model.onnx"
        if case.draw is None:
            path = PACKAGED[name].required_path()
        else:
            onnx.save(case.draw(), path)
        options = Options(search=SearchOptions(lanes=2), verify=Verify.off)
        optimize_range(str(path), parse_ranges(case.ranges), Path(folder) / "out", options)
        executable: Any = load(Path(folder) / "out")
        quantised = rounds(kinds(executable.schedule.get("graph", {})))
        sessions = [executable.session("poisoning"), executable.session()]
        for session in sessions:
            opened.callback(session.close)
        reference = reference_session(onnx.load(path))
        for number, inputs in enumerate(_inputs(executable, case, shapes, seed)):
            # The poisoning executor runs in Python, at every eighth shape.
            session = sessions[number % 8 != 0]
            session.run(**inputs)
            expected = reference.run(None, inputs)
            outputs = [session.get_output(place) for place in range(len(expected))]
            largest = max(largest, output_errors(outputs, expected)[1])
            limit = tolerance("float32", expected, quantised=quantised)
            if not different and (how := difference(outputs, expected, limit)):
                different = f"{[value.shape for value in inputs.values()]}: {how}"
    return largest, different


def _inputs(executable: Any, case: Case, count: int, seed: int) -> Iterator[dict[str, Array]]:
    """Yield random inputs: of large shapes fewer than of small ones."""
    random, generator = Random(seed), np.random.default_rng(seed)
    for _ in range(count):
        values: dict[str, int] = {}
        for symbol in executable.program.symbols:
            share = random.random() ** 2
            values[symbol.name] = symbol.least + round(share * (symbol.most - symbol.least))
        inputs: dict[str, Array] = {}
        for port in executable.inputs:
            shape = at_values(port.shape, values)
            if port.dtype.startswith("float"):
                value = generator.standard_normal(shape)
            elif "mask" in port.name:
                value = generator.integers(0, 2, shape)
                value[:, 0] = 1
            else:
                value = generator.integers(0, case.words, shape)
            inputs[port.name] = np.asarray(value).astype(port.dtype)
        yield inputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--shapes", type=int, default=10_000, help="of all networks together")
    given = parser.parse_args()
    names = given.networks or list(CASES)
    table = Table("network", "shapes", "largest error", "")
    console = Console(width=160)
    for name in names:
        try:
            shapes = -(-given.shapes // len(names))
            error, different = compared(name, shapes)
            table.add_row(name, str(shapes), f"{error:.1e}", different)
        except UserError as refusal:
            table.add_row(name, "0", "", str(refusal))
        except FileNotFoundError as error:
            table.add_row(name, "0", "", str(error))
        console.print(
            name,
            *map(str, list(table.columns[2].cells)[-1:]),
            list(table.columns[3].cells)[-1][:140],
        )
    console.print(table)


if __name__ == "__main__":
    main()
