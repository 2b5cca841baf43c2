"""A published value beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

#: A number, or words such as ``out of memory``.
Value = float | int | str

#: How far ours may be from the published value, as a part of it.
_NEAR, _ROUGH = 0.10, 0.25


class How(StrEnum):
    """How our value was had."""

    MEASURED = "measured here"
    SIMULATED = "simulated"
    COUNTED = "counted"
    NOT_POSSIBLE = "not possible"
    ILLUSTRATION = "an illustration"


class Agreement(StrEnum):
    """How far our value agrees with the published one."""

    NEAR = "within 10 %"
    ROUGH = "within 25 %"
    DIRECTION = "direction only"
    NO = "not"
    NONE = "not comparable"


@dataclass(frozen=True, slots=True)
class Row:
    """A published value beside ours."""

    #: What of the table or figure it is, such as ``Inception V3, transitions``; unique there.
    label: str
    #: As published; None where a figure is only drawn and its text states no value.
    published: Value | None
    #: By this project; None where that is not possible.
    ours: Value | None
    #: Of both.
    unit: str
    #: How ours was had.
    how: How
    #: The described device that it was simulated on, if it was.
    device: str = ""
    #: The command that prints ours, where it is another than ``python -m benchmarks.papers``.
    command: str = ""
    #: Why both differ, why it is not possible, or what shows the same as an illustration.
    note: str = ""
    #: The value that says "no difference": 1 of a speed-up, 0 of a saving. Where there is one, two
    #: values on the same side of it agree in direction at least.
    neutral: float | None = None
    #: Whether the values may be compared; where not, ``note`` says why.
    comparable: bool = True

    @property
    def agreement(self) -> Agreement:
        """How far both agree."""
        if not self.comparable or self.published is None or self.ours is None:
            return Agreement.NONE
        if isinstance(self.published, str) or isinstance(self.ours, str):
            return Agreement.NEAR if self.published == self.ours else Agreement.NO
        difference = abs(self.ours - self.published)
        for part, agreement in ((_NEAR, Agreement.NEAR), (_ROUGH, Agreement.ROUGH)):
            # What is published is rounded, and so is the difference of decimal fractions.
            if difference <= abs(self.published) * part + 1e-12:
                return agreement
        if self.neutral is not None:
            theirs, ours = self.published - self.neutral, self.ours - self.neutral
            return Agreement.DIRECTION if theirs * ours > 0 else Agreement.NO
        return Agreement.NO

    def to_json(self) -> dict[str, Any]:
        """All of it, as plain data."""
        return {**asdict(self), "agreement": self.agreement.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        """What :meth:`to_json` gave."""
        fields: dict[str, Any] = {**data, "how": How(data["how"])}
        del fields["agreement"]
        return cls(**fields)


def shown(value: Value | None) -> str:
    """A value with four digits that count; whole numbers with all of theirs up to a million."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if abs(value) >= 1e6 and value != round(value, -3):
        return f"{value:.3e}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
