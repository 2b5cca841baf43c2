"""A framework that does not compute a model."""

from __future__ import annotations

from tvm_ios.errors import UserError


class NotComputed(UserError):
    """Half a sentence that says why."""
