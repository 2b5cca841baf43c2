"""Compute the outputs of a program of ``torch.export`` by PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runtime_ext.verification.not_computed import NotComputed
from tvm_ios.errors import ModelError
from tvm_ios.files.array_files import Array
from tvm_ios.models.torch_archive import read_torch_archive
from tvm_ios.models.torch_program import load_program

#: Marks, among the arguments that the program keeps, those that are given to it.
_TENSOR = object()


def torch_outputs(
    path: Path,
    inputs: Sequence[Mapping[str, Array]],
    weights: Callable[[Array], Array] | None = None,
) -> tuple[list[list[Array]], str]:
    """Return the outputs of a ``.pt2`` file for each sample, and PyTorch's name and version.

    A sample has the arrays by name, in the order of ``forward``'s arguments; outputs are in the
    order in which ``forward`` returns them. ``weights`` returns a replacement for each weight.
    Raise NotComputed if PyTorch is not installed, or refuses the program.
    """
    try:
        program = load_program(path, read_torch_archive(path).content)
    except ModelError as error:
        raise NotComputed(f"PyTorch does not run the program: {error}") from error
    import torch
    from torch.export.graph_signature import InputKind
    from torch.utils import _pytree as pytree

    places = [
        getattr(spec.arg, "value", _TENSOR)
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    ]
    try:
        module = program.module()
        with torch.inference_mode():
            if weights is not None:
                for tensor in module.state_dict().values():
                    tensor.copy_(torch.from_numpy(weights(tensor.numpy())))
            outputs: list[list[Array]] = []
            for sample in inputs:
                arrays = iter(sample.values())
                leaves = [
                    torch.from_numpy(next(arrays)) if kept is _TENSOR else kept for kept in places
                ]
                arguments, keywords = pytree.tree_unflatten(leaves, program.call_spec.in_spec)
                result = module(*arguments, **keywords)
                leaves = pytree.tree_leaves(result)
                outputs.append([leaf.numpy() for leaf in leaves if leaf is not None])
    # A program lacks inputs that it does not read; torch raises errors of any type.
    except Exception as error:
        raise NotComputed(f"PyTorch {torch.__version__} does not run the program") from error
    return outputs, f"PyTorch {torch.__version__}"
