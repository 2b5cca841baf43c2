"""What every stated failure has in common."""

from __future__ import annotations


class UserError(ValueError):
    """A failure that a user can act on: one sentence that names the thing and the way out."""


class SearchError(UserError):
    """A search that cannot be done, with one sentence that says why and what would help."""


class MemoryBudgetError(SearchError):
    """A budget of memory that nothing that was searched for fits into."""
