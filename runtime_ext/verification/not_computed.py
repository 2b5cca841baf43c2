"""The error of a framework that does not compute a model."""

from __future__ import annotations

from tvm_ios.errors import UserError


class NotComputed(UserError):
    """Raised when a framework does not compute a model; the message is half a sentence."""
