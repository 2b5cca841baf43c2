"""Read a model by its zoo name or from a file, as a canonical TVM module."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
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
    from relay_passes.search_options import SearchOptions


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that was read."""

    dialect: Dialect
    #: The zoo's name of it, or the file's without its suffix.
    name: str
    #: The canonical module, with weights as constants.
    module: tvm.IRModule
    #: The simplified ONNX model without its tail, or None if it was not read from one.
    onnx: onnx.ModelProto | None
    #: The model in its own framework's form, with static inputs and without its tail; None if that
    #: is TVM.
    original: Original | None = None
    #: The same as ONNX, which torch's exporter may have written; None if the original is None.
    written: onnx.ModelProto | None = None
    #: The part of the model that runs after the program.
    tail: Tail | None = None
    #: The ONNX model as it was written, if it has a tail.
    whole: onnx.ModelProto | None = None

    def prepared(self, dump_ir: Path | None = None) -> Prepared:
        """Return the module with its units formed; it is not canonicalised again.

        The phases' results are written into the folder ``dump_ir``, if there is one.
        """
        from relay_passes.pipeline import prepare_canonical

        return prepare_canonical(self.module, self.name, dump_ir=dump_ir)


def load_model(
    model: AnyModel | LoadedModel,
    progress: Progress = silent,
    dump_ir: Path | None = None,
    *,
    options: SearchOptions | None = None,
) -> LoadedModel:
    """Read a zoo network or a file: ``.onnx``, ``.pt2``, a module saved as ``.json``.

    A loaded model is returned unchanged. Models of other forms are refused before TVM is imported,
    which takes seconds. The module before it is canonicalised is written into the folder
    ``dump_ir``, if there is one. With ``options`` for a GPU, recurrent layers become cells.

    Raises
    ------
    UserError
        If there is no such model or it cannot be scheduled; one sentence says why.
    """
    if isinstance(model, LoadedModel):
        return model
    source = ModelSource.of(model)
    if options is not None and options.is_for_gpu:
        source = replace(source, cells=True)
    form = source.form
    if source.is_onnx:
        whole = read_model(source)
        progress("simplifying the model", 0, 1)
        simple = simplified(source, whole)
        progress("simplifying the model", 1, 1)
        operators = len(simple.model.graph.node)
        progress("importing operators", 0, operators)
        dialect = named_dialect(source.dialect)
        module = dialect.import_onnx(simple.model, dump_ir)
        progress("importing operators", operators, operators)
        written = simple.written
        return LoadedModel(
            dialect,
            source.name,
            module,
            simple.model,
            original=source.path if form is Form.TORCH else written,
            written=written,
            tail=simple.tail,
            whole=None if simple.tail is None else whole,
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
    module = load_saved_module(source.path, dialect, source.shapes, dump_ir)
    return LoadedModel(dialect, source.name, module, None)
