"""What a check finds: fine, worth knowing, or in the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How bad it is."""

    OK = "ok"
    #: tvm-ios works, but not as well as it could.
    WARNING = "warning"
    #: Something that tvm-ios needs does not work.
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """A finding.

    Attributes
    ----------
    name
        What was looked at.
    status
        How it is.
    detail
        What was seen.
    remedy
        The way out, in one sentence; empty if none is needed.
    """

    name: str
    status: Status
    detail: str
    remedy: str = ""


#: Looks at one thing, or at several of a kind.
Checker = Callable[[], Iterable[Check]]


def run_checks(checkers: Iterable[tuple[str, Checker]]) -> list[Check]:
    """Run named checkers; one that fails is a problem and keeps no other from running."""
    found: list[Check] = []
    for name, checker in checkers:
        try:
            found += checker()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            found.append(
                Check(name, Status.PROBLEM, f"could not be looked at: {reason}", "report this")
            )
    return found
