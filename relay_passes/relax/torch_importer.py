"""Programs of torch.export as canonical Relax modules."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm

from relay_passes.relax.bindings import DialectError
from relay_passes.relax.canonicalise import canonicalise
from relay_passes.relax.fix_inputs import fix_inputs
from runtime_ext.scheduled_module import OUTPUT_NAMES
from tvm_ios.onnx_file import ModelError
from tvm_ios.torch_archive import read_torch_archive


def import_torch(path: Path, shapes: Mapping[str, Sequence[int]] | None = None) -> tvm.IRModule:
    """A canonical Relax module of a ``.pt2`` file, weights as constants.

    Inputs have the names of ``forward``'s arguments.

    Raises
    ------
    ModelError
        If the file cannot be read, or torch is not installed.
    InputShapeError
        If a dimension is dynamic and not given.
    DialectError
        If TVM's importer does not support the program.
    """
    archive = read_torch_archive(path)
    program = _load(path, archive.content)
    if archive.conditions and program.range_constraints:
        raise ModelError(
            f"{path} was exported with conditions on its dynamic dimensions: "
            "export it with fixed shapes"
        )
    from tvm.relax.frontend.torch import from_exported_program

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            module = from_exported_program(program)
        except Exception as error:
            reason = str(error).strip().splitlines()[-1] if str(error).strip() else repr(error)
            raise DialectError(f"TVM's importer refuses {path}: {reason}") from error
    static = fix_inputs(module, shapes)
    return canonicalise(static.with_attr(OUTPUT_NAMES, json.dumps(archive.outputs)))


def _load(path: Path, content: bytes) -> Any:
    try:
        import torch.export
    except ImportError as error:
        raise ModelError(f"{path} needs torch: pip install 'tvm-ios[torch]'") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.export.load(io.BytesIO(content))
        except Exception as error:
            reason = " ".join(str(error).split()) or repr(error)
            raise ModelError(
                f"{path} cannot be read by torch {torch.__version__}: {reason[:300]}"
            ) from error
