"""What every stated failure has in common."""

from __future__ import annotations


class UserError(ValueError):
    """A failure that a user can act on: one sentence that names the thing and the way out."""
