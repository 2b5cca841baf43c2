"""The finding of a check: fine, a warning, or a problem."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    #: tvm-ios works, but not as well as it could.
    WARNING = "warning"
    #: Something that tvm-ios needs does not work.
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """A finding: the check's name, its severity, details, and how to solve a problem, if any."""

    name: str
    status: Status
    detail: str
    remedy: str = ""
