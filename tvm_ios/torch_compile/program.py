"""Programs that run on torch's tensors, and the comparison of them with torch itself."""
# pyright: basic, reportMissingImports=warning

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from runtime_ext.execution.buffers import fits_kernels
from runtime_ext.native_errors import SessionError
from tvm_ios.contest.outputs import difference, output_errors
from tvm_ios.contest.tolerance import Tolerance, rounds, tolerance, widened
from tvm_ios.program.program import ALIGNMENT
from tvm_ios.schedule.first_difference import kinds

if TYPE_CHECKING:
    from runtime_ext.execution.executable import Executable
    from tvm_ios.files.array_files import Array


class TensorProgram:
    """A session of an executable whose inputs and outputs are torch's tensors.

    A program of one shape reads its inputs and writes its outputs where these lie; one of a range
    copies them. ``places`` has the place of each input, by name, among the arguments.
    """

    def __init__(self, executable: Executable, places: Mapping[str, int]) -> None:
        self._session = session = executable.program_session()
        self._places = [places[port.name] for port in session.inputs]
        self._names = [port.name for port in session.inputs]
        self._lock = threading.Lock()
        types = [(port.shape, getattr(torch, port.dtype)) for port in session.outputs]
        try:
            self._run = self._over_tensors(session.over_callers_memory(), types)
        except SessionError:
            self._run = self._with_copies

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the outputs, which later calls do not change."""
        given = [arguments[place].detach() for place in self._places]
        with self._lock:
            return self._run([t if t.is_contiguous() else t.contiguous() for t in given])

    def _over_tensors(
        self, run: Callable[..., None], types: Sequence[tuple[tuple[int, ...], Any]]
    ) -> Callable[[Sequence[Any]], list[Any]]:
        def call(inputs: Sequence[Any]) -> list[Any]:
            read = [t if fits_kernels(t.data_ptr(), t.nbytes) else _moved(t) for t in inputs]
            outputs = [_allocated(shape, dtype) for shape, dtype in types]
            run(*(tensor.data_ptr() for tensor in (*read, *outputs)))
            return outputs

        return call

    def _with_copies(self, inputs: Sequence[Any]) -> list[Any]:
        arrays = (tensor.numpy() for tensor in inputs)
        self._session.run(**dict(zip(self._names, arrays, strict=True)))
        count = len(self._session.outputs)
        return [torch.from_numpy(self._session.get_output(place)) for place in range(count)]


def _allocated(shape: Sequence[int], dtype: Any) -> Any:
    tensor = torch.empty(shape, dtype=dtype)
    if fits_kernels(tensor.data_ptr(), tensor.nbytes):
        return tensor
    # With the slack that kernels may read behind it.
    raw = torch.empty(tensor.nbytes + ALIGNMENT, dtype=torch.uint8)
    return raw[: tensor.nbytes].view(dtype).view(shape)


def _moved(tensor: Any) -> Any:
    return _allocated(tensor.shape, tensor.dtype).copy_(tensor)


def difference_from_torch(
    executable: Executable,
    outputs: Sequence[Any],
    compute: Callable[[Sequence[Any]], Sequence[Any]],
    arguments: Sequence[Any],
    precision: str,
) -> str:
    """Describe how a program's outputs differ from torch's by more than rounding.

    The result is a part of a sentence, empty if they do not. ``compute`` returns torch's outputs
    for ``arguments``. Where rounding alone changes these, as it does where a model magnifies any
    error, that much is allowed, too.
    """
    expected = _arrays(compute(arguments))
    quantised = rounds(kinds(executable.schedule.get("graph", {})))
    limit = tolerance(precision, expected, quantised=quantised)
    if not difference(_arrays(outputs), expected, limit):
        return ""
    return difference(
        _arrays(outputs), expected, _with_own_error(limit, expected, compute, arguments)
    )


def _with_own_error(
    limit: Tolerance,
    expected: Sequence[Array],
    compute: Callable[[Sequence[Any]], Sequence[Any]],
    arguments: Sequence[Any],
) -> Tolerance:
    """Return a tolerance that allows for what one step of every argument's rounding changes."""
    errors: list[float] = []
    for towards in (-np.inf, np.inf):
        moved = [
            torch.nextafter(a, torch.full_like(a, towards))
            if isinstance(a, torch.Tensor) and a.dtype == torch.float32
            else a
            for a in arguments
        ]
        errors.append(output_errors(_arrays(compute(moved)), expected)[1])
    return widened(limit, max(errors))


def _arrays(tensors: Sequence[Any]) -> list[Array]:
    return [tensor.detach().contiguous().numpy() for tensor in tensors]
