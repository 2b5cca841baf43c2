"""Programs of ranges at many random shapes, beside ONNX Runtime.

``python -m tests.random_shapes --shapes 10000`` compiles each network for its range, runs it at
random shapes on two lanes, by workers of one lane and by the poisoning executor, and compares all
outputs. A network that has no program of a range is told with the sentence that refuses it.

``--sanitized`` runs each network in a process of its own, in which the C++ library has the
sanitizers of addresses and of undefined behaviour. These do not see what kernels do: the poisoning
executor has guarded memory there at half of its shapes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

from benchmarks.networks import open_models
from benchmarks.networks.open_models import encoder
from benchmarks.networks.packaged import PACKAGED
from runtime_ext.fresh_process import report, run_fresh_process
from tests.cpp_compiler import NATIVE, compile_cpp, compiler
from tests.dynamic_models import detection, dynamic
from tests.guarded_memory import guarded_memory
from tvm_ios import zoo
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.files.json_text import json_object
from tvm_ios.progress import Progress, silent
from tvm_ios.shapes.extent import at_values

#: How the C++ library is compiled for ``--sanitized``; the first finding ends the process.
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g1", "-O1")


@dataclass(frozen=True)
class Case:
    """A network, drawn or of a package, its ranges, and the numbers that its words may be."""

    draw: Callable[[], Any] | None
    ranges: tuple[str, ...]
    words: int = 2


def _words(draw: Callable[[], Any] | None, *names: str, most: int = 32, words: int = 50) -> Case:
    return Case(draw, tuple(f"{name}:1..8,1..{most}" for name in names), words)


def _images(name: str, least: int, most: int, step: int) -> Case:
    extents = f"{least}..{most}:{step}"
    axes = {0: "batch", 2: "height", 3: "width"}
    return Case(
        lambda: open_models.opened(zoo.build(name), axes), (f"input:1..4,3,{extents},{extents}",)
    )


CASES: Mapping[str, Case] = {
    "bert": _words(dynamic.bert, "input_ids", "attention_mask"),
    "encoder": _words(lambda: encoder(2, 64, 4, 100), "input_ids", "attention_mask", most=200),
    "tagger": Case(dynamic.tagger, ("words:1..8,1..40",), 50),
    "speech": Case(dynamic.speech, ("samples:1,40..2000",)),
    "unet": Case(dynamic.unet, ("image:1,3,16..128:8,16..128:8",)),
    "unet_any_size": Case(dynamic.unet, ("image:1,3,16..90,16..90",)),
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
    "tashkeel_lstm_int8": Case(None, ("input_ids:1,1..100",), 30),
    "khmer_tagger": Case(None, ("x:1,1..100", "mask:1,1..100"), 30),
    "smart_turn_int8": Case(None, ("input_features:1..4,80,800",)),
    "captcha_lstm_int8": Case(None, ("input1:1,1,64,64..320:16",)),
    "captcha": Case(open_models.MODELS["captcha"], ("input1:1,1,64,64..320:8",)),
    "decoder": Case(
        dynamic.decoder,
        ("input_ids:1..4,1..8", *(f"past_{kind}:1..4,2,1..40,8" for kind in ("key", "value"))),
        50,
    ),
    "albert": _words(
        partial(encoder, 3, 64, 4, 100, wide=128, embedding=32, shared=True),
        *("input_ids", "attention_mask"),
        most=100,
    ),
    "crnn": Case(partial(open_models.crnn, hidden=32), ("line:1..4,1,32,16..128",)),
    "speech_front": Case(open_models.speech_front, ("samples:1,400..4000",)),
    "nasnet_cell": _images("nasnet_cell", 16, 40, 4),
    "inception_block": _images("inception_block", 16, 40, 1),
    "squeezenet": _images("squeezenet", 32, 128, 16),
    "mobilenet_v2": _images("mobilenet_v2", 32, 128, 32),
}


def compiled(name: str, folder: Path) -> tuple[Path, Path]:
    """Return the model of a network and its executable, which are in the folder or are made there.

    Raise UserError if it has no program of its range.
    """
    from relay_passes.search_options import SearchOptions
    from tvm_ios.api import Options, optimize_range
    from tvm_ios.contest.outputs import Verify
    from tvm_ios.shapes.ranges import parse_ranges

    case = CASES[name]
    path, program = folder / f"{name}.onnx", folder / name
    if case.draw is None:
        path = PACKAGED[name].required_path()
    elif not path.exists():
        onnx.save(case.draw(), path)
    if not program.exists():
        options = Options(search=SearchOptions(lanes=2), verify=Verify.off)
        optimize_range(str(path), parse_ranges(case.ranges), program, options)
    return path, program


def compared(
    name: str,
    shapes: int,
    seed: int = 0,
    folder: Path | None = None,
    *,
    guarded: bool = False,
    progress: Progress = silent,
) -> tuple[float, str]:
    """Return the largest error of a network at so many shapes, and the first difference or "".

    Programs are taken from ``folder`` and kept there. With ``guarded``, the poisoning executor is
    run in guarded memory too. Raise UserError if the network has no program of its range.
    """
    from runtime_ext.execution.executable import load
    from runtime_ext.verification.onnx_outputs import reference_session
    from tvm_ios.contest.outputs import difference, output_errors
    from tvm_ios.contest.tolerance import rounds, tolerance
    from tvm_ios.onnx.file import read_onnx
    from tvm_ios.schedule.first_difference import kinds

    largest, different = 0.0, ""
    with ExitStack() as opened:
        if folder is None:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        path, program = compiled(name, folder)
        executable: Any = load(program)
        quantised = rounds(kinds(executable.schedule.get("graph", {})))
        poisoning, lanes = executable.session("poisoning"), executable.session()
        for session in (poisoning, lanes):
            opened.callback(session.close)

        def outputs_of(number: int, inputs: Mapping[str, Array]) -> list[Array]:
            # Seldom by the poisoning executor, which runs in Python.
            if number % 2:
                return _run(lanes, inputs)
            if number % 4:  # on one lane, by a worker
                return list(lanes.run_many([inputs])[0].values())
            with guarded_memory() if guarded and number % 8 else nullcontext():
                return _run(poisoning, inputs)

        reference = reference_session(read_onnx(path))
        for number, inputs in enumerate(_inputs(executable, CASES[name], shapes, seed)):
            where = str([value.shape for value in inputs.values()])
            progress(where, number, shapes)
            outputs, expected = outputs_of(number, inputs), reference.run(None, inputs)
            largest = max(largest, output_errors(outputs, expected)[1])
            limit = tolerance("float32", expected, quantised=quantised)
            if not different and (how := difference(outputs, expected, limit)):
                different = f"{where}: {how}"
    return largest, different


def _run(session: Any, inputs: Mapping[str, Array]) -> list[Array]:
    session.run(**inputs)
    return [session.get_output(place) for place in range(len(session.outputs))]


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


def sanitized_library(folder: Path) -> Path:
    """Return the C++ library with sanitizers, which is in the folder or compiled into it."""
    library, sources = folder / "libtvm_ios_sanitized.so", sorted(NATIVE.glob("*.cc"))
    newest = max(file.stat().st_mtime for file in NATIVE.iterdir())
    if not library.exists() or library.stat().st_mtime < newest:
        compile_cpp(library, sources, *SANITIZED, "-shared", "-fPIC", "-fvisibility=hidden")
    return library


def compared_sanitized(name: str, shapes: int, seed: int, folder: Path) -> tuple[float, str]:
    """Return the same as :func:`compared`, of a process with sanitizers and guarded memory.

    The second is how and at which shapes the process ended, if it did; what a sanitizer finds is
    written to a file of the folder.
    """
    compiled(name, folder)
    libraries = [
        subprocess.check_output([compiler(), f"-print-file-name=lib{kind}.so"], text=True).strip()
        for kind in ("asan", "ubsan")
    ]
    found = f"log_path={(folder / name).absolute()}.found"
    environment = {
        "TVM_IOS_NATIVE_LIB": str(sanitized_library(folder)),
        "LD_PRELOAD": " ".join(libraries),
        # Python and tvm-ffi keep much until the process ends. tvm-ffi's own handler of signals
        # names no kernels.
        "ASAN_OPTIONS": f"{found}:detect_leaks=0:handle_segv=2:quarantine_size_mb=64",
        "UBSAN_OPTIONS": f"{found}:print_stacktrace=1",
    }
    where: list[str] = []
    try:
        answer = run_fresh_process(
            [sys.executable, "-m", "tests.random_shapes", "--in-this-process"],
            {"name": name, "shapes": shapes, "seed": seed, "folder": folder.absolute()},
            environment,
            lambda what, done, total: where.append(what),
        )
    except UserError as error:
        return float("inf"), f"{where[-1] if where else 'at the start'}: {error}"
    return answer["error"], answer["different"]


def _answer() -> None:
    """Compare what standard input says, as ``run_fresh_process`` wants it."""
    task = json_object(sys.stdin.readline().encode())
    task["folder"] = Path(task["folder"])
    error, different = compared(**task, guarded=True, progress=report)
    print(json.dumps({"error": error, "different": different}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--shapes", type=int, default=10_000, help="of all networks together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where programs are kept for later calls")
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.in_this_process:
        _answer()
        return
    names = given.networks or list(CASES)
    shapes = -(-given.shapes // len(names))
    table = Table("network", "shapes", "largest error", "CPU seconds", "")
    console = Console(width=160)
    with ExitStack() as opened:
        folder = given.folder or Path(opened.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        run = compared_sanitized if given.sanitized else compared
        for name in names:
            try:
                compiled(name, folder)
                # Of this process and those that it waited for, on whatever else the machine does.
                begin = sum(os.times()[:4])
                error, different = run(name, shapes, given.seed, folder)
                seconds = sum(os.times()[:4]) - begin
                row = [name, str(shapes), f"{error:.1e}", f"{seconds:.0f}", different]
            except (UserError, FileNotFoundError) as refusal:
                row = [name, "0", "", "", str(refusal)]
            table.add_row(*row)
            console.print(*row)
    console.print(table)


if __name__ == "__main__":
    main()
