"""Files that describe devices by figures, each with its unit and where it is from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError
from tvm_ios.files.json_text import JsonError, json_object


class DeviceError(UserError):
    """A device that is unknown or misdescribed, with one sentence that says which."""


@dataclass(frozen=True, slots=True)
class FigureFile:
    """What a file says.

    Attributes
    ----------
    name, description
        For people.
    values
        The figures; counts and bytes are whole.
    sources
        For each figure where it is from.
    data
        All of the file.
    """

    name: str
    description: str
    values: Mapping[str, Any]
    sources: Mapping[str, str]
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FigureFiles:
    """All files of one kind: those of the package, and users' own.

    Attributes
    ----------
    kind
        Such as ``"device"``; the files' format is called after it.
    folder
        The folder of the package's files.
    units
        For each figure its unit; none for a count.
    """

    kind: str
    folder: str
    units: Mapping[str, str]

    def names(self) -> tuple[str, ...]:
        """What comes with the package."""
        names = (
            file.name
            for file in resources.files("tvm_ios").joinpath("devices", self.folder).iterdir()
        )
        return tuple(sorted(n.removesuffix(".json") for n in names if n.endswith(".json")))

    def text(self, name: str) -> str:
        """The file of one of the names."""
        return (
            resources.files("tvm_ios").joinpath("devices", self.folder, f"{name}.json").read_text()
        )

    def load(self, name: str) -> FigureFile:
        """Read one of the names, or a file of the same form by its path.

        Raises
        ------
        DeviceError
            If there is none, or it lacks or misstates a figure.
        """
        if name.endswith(".json"):
            path = Path(name)
            if not path.is_file():
                raise DeviceError(f"there is no {self.kind} file {name}")
            text = path.read_text(errors="replace")
        elif name in self.names():
            text = self.text(name)
        else:
            raise DeviceError(
                f"there is no {self.kind} {name!r}: use {', '.join(self.names())}, or the path of "
                "a .json file"
            )
        try:
            return self._description(name, json_object(text))
        except JsonError as error:
            raise DeviceError(f"the file {name} is not a {self.kind}: {error}") from error

    def _description(self, origin: str, data: dict[str, Any]) -> FigureFile:
        if data.get("format") != f"tvm-ios {self.kind}" or data.get("version") != 1:
            raise DeviceError(f"{origin} is not a tvm-ios {self.kind} of version 1")
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for key, unit in self.units.items():
            try:
                figure = data["figures"][key]
                value, sources[key] = float(figure["value"]), str(figure["source"])
                right_unit = not unit or figure["unit"] == unit
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                raise DeviceError(
                    f"the {self.kind} {origin} needs a value, unit and source for {key!r}"
                ) from error
            whole = unit in ("", "byte")
            positive = value >= 0 if key.endswith("overhead") else value > 0
            if not (right_unit and positive and math.isfinite(value)) or (whole and value % 1):
                raise DeviceError(
                    f"the {self.kind} {origin} misstates {key!r}: give it in "
                    f"{unit or 'whole numbers'}"
                )
            values[key] = int(value) if whole else value
        name, description = data.get("name", origin), data.get("description", "")
        return FigureFile(str(name), str(description), values, sources, data)
