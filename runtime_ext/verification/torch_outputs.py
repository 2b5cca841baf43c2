"""What a program of ``torch.export`` computes by PyTorch."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from runtime_ext.verification.not_computed import NotComputed
from tvm_ios.errors import ModelError
from tvm_ios.files.array_files import Array
from tvm_ios.models.torch_archive import read_torch_archive


def torch_outputs(
    path: Path,
    inputs: Sequence[Mapping[str, Array]],
    weights: Callable[[Array], Array] | None = None,
) -> tuple[list[list[Array]], str]:
    """The outputs of a ``.pt2`` file.

    Parameters
    ----------
    path
        The file.
    inputs
        For each sample the arrays by name, in the order of the arguments of ``forward``.
    weights
        Gives another array in the place of each weight.

    Returns
    -------
    tuple of list of list of array and str
        For each sample the outputs, as they lie in what ``forward`` returns; and whose they are.

    Raises
    ------
    NotComputed
        If PyTorch is not installed, or refuses the program.
    """
    try:
        program = load_program(path, read_torch_archive(path).content)
    except ModelError as error:
        raise NotComputed(f"PyTorch does not run the program: {error}") from error
    import torch
    from torch.utils import _pytree as pytree

    try:
        module = program.module()
        with torch.inference_mode():
            if weights is not None:
                for tensor in module.state_dict().values():
                    tensor.copy_(torch.from_numpy(weights(tensor.numpy())))
            outputs: list[list[Array]] = []
            for sample in inputs:
                tensors = [torch.from_numpy(array) for array in sample.values()]
                arguments, keywords = pytree.tree_unflatten(tensors, program.call_spec.in_spec)
                result = module(*arguments, **keywords)
                outputs.append([leaf.numpy() for leaf in pytree.tree_leaves(result)])
    # Of inputs that it does not read a program has none; torch raises what it likes.
    except Exception as error:
        raise NotComputed(f"PyTorch {torch.__version__} does not run the program") from error
    return outputs, f"PyTorch {torch.__version__}"


def load_program(path: Path, content: bytes) -> Any:
    """The ``torch.export.ExportedProgram`` of a ``.pt2`` file that was read without trust.

    Raises
    ------
    ModelError
        If torch is not installed, or refuses it.
    """
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
