"""The errors of running programs; the C++ library raises them by name, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array


class KernelError(UserError, RuntimeError):
    """A kernel failed; the sentence names the unit, the kernel and the lane."""


class BusyError(RuntimeError):
    """The executor is running already, or is closed."""


class ForkError(UserError, RuntimeError):
    """The executor belongs to the process that this one was forked from."""


class ExecutableError(UserError):
    """An executable cannot be written or used here; the sentence gives the reason."""


class SessionError(UserError):
    """A session is used wrongly; the sentence names the input, output or rule."""


class CudaError(UserError, RuntimeError):
    """CUDA is missing, or a call of it failed; the message is one sentence."""


class RequestsError(UserError):
    """Some of many requests failed.

    Attributes
    ----------
    results
        For each request its outputs, in order; None for a failed one.
    errors
        The exception of each failed request, by its place, from 0.
    """

    def __init__(
        self,
        message: str,
        results: Sequence[Mapping[str, Array] | None] = (),
        errors: Mapping[int, Exception] = MappingProxyType({}),
    ) -> None:
        super().__init__(message)
        self.results, self.errors = tuple(results), dict(errors)

    @classmethod
    def of(
        cls, results: Sequence[Mapping[str, Array] | None], errors: Mapping[int, Exception]
    ) -> RequestsError:
        """Return the error that names the first request that failed."""
        first = min(errors)
        others = f", and {len(errors) - 1} others failed" if len(errors) > 1 else ""
        return cls(
            f"request {first} of {len(results)} (counted from 0) failed: {errors[first]}{others}; "
            "the outputs of those that did not are in `results` of this error",
            results,
            errors,
        )
