"""The finding of a check: fine, a warning, or a problem."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How serious a finding is."""

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
        What was checked.
    status
        How serious the finding is.
    detail
        What was found.
    remedy
        The way out, in one sentence; empty if none is needed.
    """

    name: str
    status: Status
    detail: str
    remedy: str = ""
