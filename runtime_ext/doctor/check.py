"""What a check finds: fine, worth knowing, or in the way."""

from __future__ import annotations

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
