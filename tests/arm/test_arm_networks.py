"""Networks compiled here compute on an emulated Arm what ONNX Runtime computes here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from benchmarks.networks.packaged import PACKAGED
from relay_passes.load import load_model
from tests.arm.executables import needs_python, run_on_arm
from tests.fast_run import only
from tests.onnx_suite.cases import FORMS
from tests.onnx_suite.expectations import computed, expectations
from tests.onnx_suite.verdict import examiner
from tvm_ios import zoo
from tvm_ios.contest.outputs import difference
from tvm_ios.contest.tolerance import tolerance
from tvm_ios.files.array_files import Array
from tvm_ios.models.source import ModelSource
from tvm_ios.shapes.input_shapes import parse_shapes

pytestmark = needs_python

#: Networks of the zoo, with smaller images where they take any: emulated vectors are slow.
ZOO = {
    **dict.fromkeys(("squeezenet", "resnet34", "resnet50", "densenet121", "unet"), 64),
    **dict.fromkeys(("mobilenet_v2", "mobilenet_v3", "efficientnet_b0"), 64),
    **dict.fromkeys(("randwire_small_1", "hrnet_w18_small_v1"), 64),
    "inception_v3": 96,
    **dict.fromkeys(("inception_block", "nasnet_cell", "transformer", "transformer_small"), 0),
    **dict.fromkeys(
        ("shufflenet_v2", "dlrm", "lstm_small", "seq2seq_small", "deepspeech2_small"), 0
    ),
    "conformer_small": 0,
}
#: Trained ones, and two whose weights are rounded to 8 bits.
TRAINED = ("ppocr_cls", "silero_vad", "magika", "wake_word_lstm", "denoiser_gru", "dnsmos")
ROUNDED = ("lemma_gru_int8", "minilm_int8")
FAST = ("inception_block", "transformer_small", "lstm_small", "squeezenet", "silero_vad")


@pytest.mark.parametrize("network", only(FAST, (*ZOO, *TRAINED, *ROUNDED)))
def test_a_network(network: str, tmp_path: Path) -> None:
    if network in ZOO:
        path, shapes = tmp_path / f"{network}.onnx", {}
        onnx.save(resized(zoo.build(network), ZOO[network]), path)
    else:
        found = PACKAGED[network].path
        if found is None:
            pytest.skip("make packaged installs it")
        path, shapes = found, parse_shapes(PACKAGED[network].shapes)
    runtime = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = {port.name: drawn(port, shapes) for port in runtime.get_inputs()}
    source = ModelSource(str(path), shapes=shapes)
    ours = run_on_arm(load_model(source), inputs, tmp_path / "executable", "--without-tvm")
    theirs = runtime.run(None, inputs)
    limit = tolerance("float32", theirs, quantised=network in ROUNDED)
    assert difference(ours, theirs, limit) == ""


def resized(model: onnx.ModelProto, size: int) -> onnx.ModelProto:
    """The model for smaller images, if a size is given."""
    if size:
        (image,) = model.graph.input
        for dimension in image.type.tensor_type.shape.dim[2:]:
            dimension.dim_value = size
        del model.graph.value_info[:]
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")
    return model


def drawn(port: onnxruntime.NodeArg, shapes: dict[str, tuple[int, ...]]) -> Array:
    shape, random = shapes.get(port.name, port.shape), np.random.default_rng(0)
    if port.type == "tensor(float)":
        return random.standard_normal(shape, np.float32)
    kind = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}[port.type]
    return random.integers(0, 2, shape, kind)


#: One case in so many is run, and in a fast run one in ten of these.
_SPREAD = {"inputs": 16, "constants": 24}


@pytest.mark.parametrize(
    ("form", "spread"),
    only([(f, 10) for f in FORMS], [(f, n) for f in FORMS for n in (1, 10)], several=True),
)
def test_cases_of_the_suite_of_onnx(form: str, spread: int) -> None:
    verdict, expected = examiner("tvm-ios-arm", form), expectations("tvm-ios", form)
    names = computed("tvm-ios", form)[:: spread * _SPREAD[form]]
    verdicts = {name: verdict(name) for name in names}
    assert not {n: v for n, v in verdicts.items() if v.verdict != expected.get(n, "pass")}
