"""Operators of ``ai.onnx.ml``, written in those of ONNX, beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.contrib_sketch import one, require_same
from tests.onnx_sketch import run_on
from tests.refusals import refused, require_names
from tvm_ios.errors import ModelError
from tvm_ios.graph.elements import GraphError
from tvm_ios.models.load import SimplifiedModel, read_model, simplified
from tvm_ios.models.source import ModelSource
from tvm_ios.onnx.simplify import simplify

pytest.importorskip("onnxruntime")
DOMAIN = "ai.onnx.ml"
X = np.array([[1, 2, 3], [-1, 0.5, -2], [0, 0, 0], [4, -7, 2.5]], np.float32)
INTEGERS = np.array([[1, 5, 2], [9, 2, 2]])
NAN = np.array([[np.nan, 1, 2], [3, np.nan, 1]], np.float32)
TWO = {"coefficients": [-0.5, 1, -2.0, 0.5, -1, 2.0], "intercepts": [-0.1, 0.2]}
ONE = {"coefficients": [0.5, -1, 2.0], "intercepts": [0.1]}
VECTORS = {
    "kernel_params": [0.3, 0.5, 2.0],
    "n_supports": 2,
    "support_vectors": [1.0, 0.5, -1, 0.3, -0.2, 2],
    "coefficients": [0.7, -1.2],
    "rho": [0.25],
}

CASES: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "Scaler": ("Scaler", [X], {"offset": [1.0, 2, 3], "scale": [2.0, 1, 0.5]}),
    "Scaler of all": ("Scaler", [X], {"offset": [1.0], "scale": [2.0]}),
    "Scaler of integers": ("Scaler", [INTEGERS], {"offset": [1.0], "scale": [2.0]}),
    "Normalizer": ("Normalizer", [X], {}),
    "Normalizer by sums": ("Normalizer", [X], {"norm": "L1"}),
    "Normalizer by squares": ("Normalizer", [X], {"norm": "L2"}),
    "Binarizer": ("Binarizer", [X], {"threshold": 0.5}),
    "Imputer": ("Imputer", [X], {"imputed_value_floats": [9.0, 8, 7], "replaced_value_float": 2.0}),
    "Imputer of what is no number": (
        "Imputer",
        [NAN],
        {"imputed_value_floats": [9.0], "replaced_value_float": float("nan")},
    ),
    "Imputer of integers": (
        "Imputer",
        [INTEGERS],
        {"imputed_value_int64s": [9, 8, 7], "replaced_value_int64": 2},
    ),
    "FeatureVectorizer": ("FeatureVectorizer", [X, X[:, :1]], {"inputdimensions": [3, 1]}),
    "FeatureVectorizer, cut and filled": (
        "FeatureVectorizer",
        [X, X[:, :1]],
        {"inputdimensions": [2, 3]},
    ),
    "FeatureVectorizer of integers": ("FeatureVectorizer", [INTEGERS], {"inputdimensions": [3]}),
    "ArrayFeatureExtractor": ("ArrayFeatureExtractor", [X, np.array([[0, 2]])], {}),
    "ArrayFeatureExtractor of a row": ("ArrayFeatureExtractor", [X[0], np.array([1])], {}),
    "OneHotEncoder": ("OneHotEncoder", [INTEGERS], {"cats_int64s": [1, 2, 5], "zeros": 1}),
    "OneHotEncoder of floats": ("OneHotEncoder", [X], {"cats_int64s": [1, 2], "zeros": 1}),
    "LabelEncoder": (
        "LabelEncoder",
        [INTEGERS],
        {"keys_int64s": [5, 2], "values_floats": [0.5, 0.25], "default_float": 3.0},
    ),
    "LabelEncoder, no default": (
        "LabelEncoder",
        [INTEGERS],
        {"keys_int64s": [5, 2], "values_int64s": [7, 9]},
    ),
    "LabelEncoder of floats": (
        "LabelEncoder",
        [NAN],
        {"keys_floats": [1.0, float("nan")], "values_int64s": [4, 7]},
    ),
    "LinearRegressor": ("LinearRegressor", [X], {**TWO, "targets": 2}),
    "LinearRegressor of one": ("LinearRegressor", [X], {**ONE, "post_transform": "LOGISTIC"}),
    "LinearRegressor, logistic": (
        "LinearRegressor",
        [X],
        {**TWO, "targets": 2, "post_transform": "LOGISTIC"},
    ),
    "SVMRegressor": ("SVMRegressor", [X], {**VECTORS, "kernel_type": "RBF"}),
    "SVMRegressor, powers": ("SVMRegressor", [X], {**VECTORS, "kernel_type": "POLY"}),
    "SVMRegressor, bent": ("SVMRegressor", [X], {**VECTORS, "kernel_type": "SIGMOID"}),
    "SVMRegressor, products": ("SVMRegressor", [X], {**VECTORS, "kernel_type": "LINEAR"}),
    "SVMRegressor, without vectors": (
        "SVMRegressor",
        [X],
        {**VECTORS, "coefficients": [0.5, -1, 2.0], "n_supports": 0},
    ),
    "SVMRegressor, in or out": (
        "SVMRegressor",
        [X],
        {**VECTORS, "kernel_type": "RBF", "one_class": 1},
    ),
}


def model_of(
    kind: str, inputs: list[Any], outputs: int | list[bool] = 1, **attributes: Any
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    model, feeds = one(kind, inputs, outputs, domain=DOMAIN, **attributes)
    version = 4 if kind == "LabelEncoder" else 1
    model.opset_import.append(helper.make_opsetid(DOMAIN, version))
    return model, feeds


@pytest.mark.parametrize("case", CASES)
def test_features_and_regressors(case: str) -> None:
    kind, inputs, attributes = CASES[case]
    require_same(*model_of(kind, inputs, **attributes), limit=2e-6)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize(
    ("weights", "labels"),
    [
        (ONE, {}),
        (ONE, {"classlabels_ints": [3, 7]}),
        (TWO, {"classlabels_ints": [3, 7]}),
    ],
    ids=["one score", "one score, labels", "two scores"],
)
def test_linear_classifiers(
    weights: dict[str, Any], labels: dict[str, Any], transform: str
) -> None:
    attributes = {**weights, **labels, "post_transform": transform}
    require_same(*model_of("LinearClassifier", [X], 2, **attributes), limit=2e-6)


def test_labels_that_are_strings_and_not_read() -> None:
    attributes = {**TWO, "classlabels_strings": ["cat", "dog"], "post_transform": "SOFTMAX"}
    model, feeds = model_of("LinearClassifier", [X], [True, True], **attributes)
    with refused(GraphError, "one", "LinearClassifier", DOMAIN, "strings"):
        simplify(model)
    del model.graph.output[0]
    (result,), (right,) = run_on(simplify(model), feeds), run_on(model, feeds)
    assert np.allclose(result, right, atol=1e-6)


#: A tree of one question: whether the first feature is at most 0.5.
TREE = """TreeEnsembleRegressor <n_targets = 1, nodes_treeids = [0, 0, 0],
    nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], nodes_values = [0.5, 0.0, 0.0],
    nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids = [1, 0, 0],
    nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0], target_nodeids = [1, 2],
    target_ids = [0, 0], target_weights = [-3.0, 4.0]>"""


def read(text: str, folder: Path) -> SimplifiedModel:
    path = folder / "drawn.onnx"
    onnx.save(drawn(text), str(path))
    source = ModelSource(str(path))
    return simplified(source, read_model(source))


def drawn(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
        drawn (float[4, 3] x) => (float[4, n] y)
        <float[3, 3] w = {{1, -1, 2, 0.5, 1, 1, 0, 3, 1}}, float[1, 2] v = {{1, 2}}> {{ {text} }}
    """)


def test_trees_after_a_network_run_on_onnx_runtime(tmp_path: Path) -> None:
    text = f"m = MatMul(x, w) h = Relu(m) t = ai.onnx.ml.{TREE} (h) y = Neg(t)"
    parts = read(text, tmp_path)
    assert parts.tail is not None
    assert [node.op_type for node in parts.model.graph.node] == ["MatMul", "Relu"]
    require_names(parts.tail.sentence, "2", "TreeEnsembleRegressor", "no such operator")
    feeds = {"x": X}
    (made,) = run_on(parts.model, feeds)
    (name,) = parts.tail.reads
    (result,) = run_on(parts.tail.model, {name: made})
    assert np.array_equal(result, run_on(drawn(text), feeds)[0])
    assert len(np.unique(result)) == 2


def test_trees_before_a_network_are_named(tmp_path: Path) -> None:
    with refused(GraphError, "TreeEnsembleRegressor", "ONNX Runtime", "after", "by itself", 1):
        read(f"a = Neg(x) t = ai.onnx.ml.{TREE} (a) y = MatMul(t, v)", tmp_path)


def test_dictionaries_are_named(tmp_path: Path) -> None:
    with refused(ModelError, "ZipMap", DOMAIN, "zipmap=False"):
        read("y = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1, 2]> (x)", tmp_path)
