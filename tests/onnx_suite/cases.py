"""The suite's cases in both forms."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

from tvm_ios.files.array_files import Array

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "real")
FORMS = ("inputs", "constants")

_RANDOM = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}


@dataclass(frozen=True)
class Case:
    """One model of the suite in one form."""

    #: The suite's ``TestCase``.
    test: Any
    #: One of :data:`KINDS`, one of :data:`FORMS`.
    kind: str
    form: str

    @property
    def name(self) -> str:
        """Unique among all kinds."""
        return f"{self.kind}/{self.test.name}"

    @property
    def operators(self) -> list[str]:
        """The types of the model's operators, sorted."""
        return sorted({node.op_type for node in self.model.graph.node})

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The model in the suite's own form."""
        if self.test.model is not None:
            return self.test.model
        return onnx.load(str(self._folder / "model.onnx" if self._folder else self._light))

    @cached_property
    def data_sets(self) -> list[tuple[Sequence[Any], Sequence[Any]]]:
        """Inputs and expected outputs, arrays or tensors, of each data set."""
        if self.test.data_sets is not None:
            return list(self.test.data_sets)
        if self._folder is None:
            return [self._light_data()]
        return [
            (_tensors(folder, "input"), _tensors(folder, "output"))
            for folder in sorted(self._folder.glob("test_data_set_*"))
        ]

    @property
    def outside(self) -> str | None:
        """Why the case is none for a compiler of tensors of numbers, or None if it is one."""
        for value in (*self.model.graph.input, *self.model.graph.output):
            kind = value.type.WhichOneof("value")
            if kind != "tensor_type":
                return f"{value.name} is of {kind}"
            if value.type.tensor_type.elem_type == TensorProto.STRING:
                return f"{value.name} is of strings"
        if random := _RANDOM & {*self.operators}:
            return f"{min(random)} is random"
        if "training_dropout" in self.name and "zero_ratio" not in self.name:
            return "Dropout is random"
        return None

    def formed(self, inputs: Sequence[Any]) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """The model in this case's form, and its inputs by name."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        free = _free_inputs(model)
        feeds = {value.name: as_array(x) for value, x in zip(free, inputs, strict=False)}
        if self.form == "inputs":
            return model, feeds
        # Before version 4 of the format every initializer had to be an input.
        model.ir_version = max(model.ir_version, 4)
        for value, content in list(zip(free, inputs, strict=False))[1:]:
            tensor = model.graph.initializer.add()
            is_tensor = isinstance(content, TensorProto)
            tensor.CopyFrom(content if is_tensor else numpy_helper.from_array(np.asarray(content)))
            tensor.name = value.name
            model.graph.input.remove(value)
            del feeds[value.name]
        return model, feeds

    @property
    def _folder(self) -> Path | None:
        return None if self.test.model_dir is None else Path(self.test.model_dir)

    @property
    def _light(self) -> Path:
        return Path(onnx.__file__).parent.parent / self.test.url

    def _light_data(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """As ``onnx.backend.test.runner`` makes it."""
        inputs: list[Array] = []
        for value in _free_inputs(self.model):
            shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
            count = int(np.prod(shape))
            inputs.append((np.arange(count).reshape(shape) / count).astype(np.float32))
        expected = self._light.with_name(f"{self._light.stem}_output_0.pb")
        return inputs, [onnx.load_tensor(str(expected))]


def as_array(value: Any) -> Array:
    """A tensor or a number as NumPy's array."""
    return np.asarray(numpy_helper.to_array(value) if isinstance(value, TensorProto) else value)


@cache
def all_cases(form: str) -> Mapping[str, Case]:
    """Every case that has this form, by name."""
    cases: dict[str, Case] = {}
    for kind in KINDS:
        for test in _tests(kind):
            case = Case(test, kind, form)
            if form == "inputs" or len(_free_inputs(case.model)) > 1:
                cases[case.name] = case
    return cases


@cache
def _tests(kind: str) -> Sequence[Any]:
    with warnings.catch_warnings():
        # The suite computes overflows and divisions by zero as it is loaded.
        warnings.simplefilter("ignore")
        return load_model_tests(kind=kind)


def _tensors(folder: Path, what: str) -> list[TensorProto]:
    count = len([*folder.glob(f"{what}_*")])
    return [onnx.load_tensor(str(folder / f"{what}_{i}.pb")) for i in range(count)]


def _free_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]
