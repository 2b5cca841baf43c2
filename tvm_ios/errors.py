"""What every stated failure has in common, and the failures that several rooms state."""

from __future__ import annotations

import difflib
from collections.abc import Collection


class UserError(ValueError):
    """A failure that a user can act on: one sentence that names the thing and the way out."""


def nearest(name: str, known: Collection[str]) -> str:
    """The end of a sentence that refuses a name: the known one that was probably meant."""
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


class ModelError(UserError):
    """A model that cannot be read."""


class SearchError(UserError):
    """A search that cannot be done, with one sentence that says why and what would help."""


class PolicyError(SearchError):
    """A policy that ended in a fault of its own; others are searched nonetheless."""

    @classmethod
    def of(cls, policy: str, error: Exception) -> PolicyError:
        """Return the error that says in what a policy ended, for those who can mend it."""
        text = " ".join(str(error).split())[:300]
        return cls(
            f"the policy {policy!r} failed with an unexpected {type(error).__name__}: {text}; "
            "please report it with the output of -vv"
        )


class MemoryBudgetError(SearchError):
    """A budget of memory that nothing that was searched for fits into."""


class UnfusedError(UserError):
    """A stage that cannot be one kernel here, with one sentence that says why."""
