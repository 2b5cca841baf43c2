"""Where we stand: ten networks beside ONNX Runtime and torch, as ``tvm-ios bench`` measures it.

``packaged`` stands for all trained networks of :mod:`benchmarks.networks.packaged`; others have
random weights. Encoders of eight texts are ``minilm_31 --batch=8`` and ``bert_128 --batch=8``.
With ``--half`` all networks are written in float16 first, as ``NAME_float16``. Networks that
the results have already are not measured again, so it can be stopped and started at will. Options
of ``tvm-ios bench`` are passed on, for instance ``--lanes=16``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from benchmarks.networks.packaged import PACKAGED
from benchmarks.report import LIGHT, RESULTS, model_of
from runtime_ext.fresh_process import end_with_parent
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.models.load import load_onnx
from tvm_ios.onnx.file import weight_files
from tvm_ios.zoo import names
from tvm_ios.zoo.sequences.bert import build_bert

ZOO = ("squeezenet", "inception_v3", "nasnet_a", "randwire")
#: MiniLM (Wang et al., 2020), 6 layers of width 384, of sentences of 31 tokens.
MINILM = "minilm_31"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", type=_network, default=[*ZOO, *LIGHT])
    parser.add_argument("--against", default="onnxruntime,torch")
    parser.add_argument("--output", default=str(RESULTS / "bench.json"))
    parser.add_argument("--half", action="store_true")
    given, options = parser.parse_known_args()
    options += ["--against", given.against, "--output", given.output, "--resume"]
    networks = [
        name for each in given.networks for name in (PACKAGED if each == "packaged" else [each])
    ]
    codes: list[int] = []
    end = partial(end_with_parent, os.getpid())
    for network in networks:
        # A process each: none suffers from what another one left in memory, or from its end. What
        # went on measuring after this one's end would make every other measurement slower.
        with temporary_folder() as folder:
            model = model_arguments(network, folder)
            if given.half:
                model[0] = str(written_in_float16(network, model[0], folder))
            command = [sys.executable, "-m", "tvm_ios", "bench", *model, *options]
            codes.append(subprocess.run(command, preexec_fn=end).returncode)
    sys.exit(max(map(abs, codes)))


def model_arguments(network: str, folder: Path) -> list[str]:
    """Return the arguments for a network: its zoo name or a file of its name, and its options."""
    if network == MINILM:
        path = folder / f"{network}.onnx"
        onnx.save(build_bert(31, layers=6, width=384, name="minilm"), path)
        return [str(path)]
    if network not in PACKAGED:
        return [model_of(network), "--random-weights=0"]
    packaged, path = PACKAGED[network].required_path(), folder / f"{network}.onnx"
    shutil.copy(packaged, path)
    # Weights are read from beside the file itself, not from where a link to them leads.
    for name in weight_files(packaged):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(packaged.parent / name, folder / name)
    return [str(path), *PACKAGED[network].options]


def written_in_float16(network: str, model: str, folder: Path) -> Path:
    """Write a network in float16; return its file."""
    written = load_onnx(model)
    graph = written.graph
    for weight in graph.initializer:
        if weight.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(weight).astype(np.float16)
            weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    del graph.value_info[:]
    for port in (*graph.input, *graph.output):
        if port.type.tensor_type.elem_type == TensorProto.FLOAT:
            port.type.tensor_type.elem_type = TensorProto.FLOAT16
    path = folder / f"{network}_float16.onnx"
    onnx.save(written, path)
    return path


def _network(name: str) -> str:
    if name in (*names(), *PACKAGED, MINILM, "packaged") or Path(model_of(name)).exists():
        return name
    raise argparse.ArgumentTypeError(
        f"{name} is no network; give options of bench their values as --seconds={name}"
    )


if __name__ == "__main__":
    main()
