"""Models as a user names them, as canonical TVM modules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx

from relay_passes.dialect import Dialect, named_dialect
from runtime_ext.verification.expected import Original
from tvm_ios.errors import ModelError
from tvm_ios.models.load import read_model, simplified
from tvm_ios.models.source import AnyModel, Form, ModelSource
from tvm_ios.onnx.tail import Tail
from tvm_ios.progress import Progress, silent

if TYPE_CHECKING:
    import tvm

    from relay_passes.prepared import Prepared


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that was read.

    Attributes
    ----------
    dialect
        The dialect of its module.
    name
        The zoo's name of it, or the file's without its suffix.
    module
        Canonical, weights as constants.
    onnx
        The simplified ONNX model, where it was read from one, without its tail.
    original
        The model as it is written in its own framework, with static inputs and without its tail;
        None where that is TVM.
    tail
        What runs after the program.
    whole
        The model as it is written where it has a tail.
    """

    dialect: Dialect
    name: str
    module: tvm.IRModule
    onnx: onnx.ModelProto | None
    original: Original | None = None
    tail: Tail | None = None
    whole: onnx.ModelProto | None = None

    def prepared(self) -> Prepared:
        """Return the units of the model, whose module is not made canonical again."""
        from relay_passes.pipeline import prepare_canonical

        return prepare_canonical(self.module, self.name)


def load_model(model: AnyModel | LoadedModel, progress: Progress = silent) -> LoadedModel:
    """Read a zoo network or a file: ``.onnx``, ``.pt2``, a module saved as ``.json``.

    What was read stays as it is. What is no such model is refused before TVM is imported.

    Raises
    ------
    UserError
        If there is no such model or it cannot be scheduled; one sentence says why.
    """
    if isinstance(model, LoadedModel):
        return model
    source = ModelSource.of(model)
    form = source.form
    if source.is_onnx:
        written = read_model(source)
        progress("simplifying the model", 0, 1)
        simple = simplified(source, written)
        progress("simplifying the model", 1, 1)
        operators = len(simple.model.graph.node)
        progress("importing operators", 0, operators)
        dialect = named_dialect(source.dialect)
        module = dialect.import_onnx(simple.model)
        progress("importing operators", operators, operators)
        whole = written if simple.tail is not None else None
        return LoadedModel(
            dialect,
            source.name,
            module,
            simple.model,
            original=source.path if form is Form.TORCH else simple.written,
            tail=simple.tail,
            whole=whole,
        )
    if form is not Form.MODULE:
        raise ModelError(
            f"{source.model} is {form.value}, of which nothing can be run or measured: give a "
            "model, or schedule it with --cost DEVICE"
        )
    if source.random_weights is not None:
        raise ModelError(
            f"{source.model} is {form.value}: weights are replaced in .onnx files only, so leave "
            "out --random-weights"
        )
    if source.batch is not None:
        raise ModelError(f"{source.model} is {form.value}, whose batch is fixed: leave out --batch")
    from relay_passes.saved_module import load_saved_module

    dialect = named_dialect(source.dialect)
    module = load_saved_module(source.path, dialect, source.shapes)
    return LoadedModel(dialect, source.name, module, None)
