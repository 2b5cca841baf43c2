"""The errors of running programs, which the C++ library raises by their names too."""

from __future__ import annotations

from tvm_ios.errors import UserError


class KernelError(UserError, RuntimeError):
    """A kernel failed; the sentence names the unit, the kernel and the lane."""


class BusyError(RuntimeError):
    """The executor is running already, or is closed."""


class ForkError(UserError, RuntimeError):
    """The executor's threads are in the process that this one was forked from."""


class ExecutableError(UserError):
    """An executable that cannot be written or used here: one sentence with the reason."""


class SessionError(UserError):
    """A wrong use of a session: one sentence that names the input, output or rule."""


class CudaError(UserError, RuntimeError):
    """CUDA is not there, or refused a call: one sentence."""
