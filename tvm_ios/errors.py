"""The base class of all errors that users can act on, and errors that several packages raise."""

from __future__ import annotations

import difflib
from collections.abc import Collection


class UserError(ValueError):
    """A failure that a user can act on: one sentence that names the thing and the way out."""


def nearest(name: str, known: Collection[str]) -> str:
    """Return "; did you mean ...?" with the known name closest to a wrong one, or nothing."""
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def first_cause(error: BaseException) -> str:
    """Return the first line of the error that caused an error, or how that is written in Python."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().partition("\n")[0] or repr(error)


class ModelError(UserError):
    """A model that cannot be read."""


class SearchError(UserError):
    """A search that cannot be done, with one sentence that says why and what would help."""


class PolicyError(SearchError):
    """A policy that raised an unexpected exception; other policies are searched nonetheless."""

    @classmethod
    def of(cls, policy: str, error: Exception) -> PolicyError:
        """Return an error that names a policy and its unexpected exception, and asks to report."""
        text = " ".join(str(error).split())[:300]
        return cls(
            f"the policy {policy!r} failed with an unexpected {type(error).__name__}: {text}; "
            "please report it with the output of -vv"
        )


class MemoryBudgetError(SearchError):
    """A memory budget that none of the schedules found fits into."""


class UnfusedError(UserError):
    """A stage that cannot be compiled into one kernel here, with one sentence that says why."""
