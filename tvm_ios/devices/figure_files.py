"""Files that describe devices by figures, each with its unit and its source."""

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
    """A device is unknown or its description wrong: one sentence that says which."""


@dataclass(frozen=True, slots=True)
class FigureFile:
    """The content of a file: its figures and their sources.

    Counts and bytes are integers; ``data`` is all of the file's JSON.
    """

    name: str
    description: str
    values: Mapping[str, Any]
    sources: Mapping[str, str]
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FigureFiles:
    """All files of one kind, such as ``"device"``, after which their format is called.

    The package's files lie in ``folder``; ``units`` has the unit of each figure, empty for a count.
    """

    kind: str
    folder: str
    units: Mapping[str, str]

    def names(self) -> tuple[str, ...]:
        """Return the names of the package's files."""
        names = (
            file.name
            for file in resources.files("tvm_ios").joinpath("devices", self.folder).iterdir()
        )
        return tuple(sorted(n.removesuffix(".json") for n in names if n.endswith(".json")))

    def text(self, name: str) -> str:
        """Return the text of the package's file of this name."""
        return (
            resources.files("tvm_ios").joinpath("devices", self.folder, f"{name}.json").read_text()
        )

    def load(self, name: str) -> FigureFile:
        """Read the package's file of a name, or a file of the same form by its path.

        Raise DeviceError if there is none, or it lacks or misstates a figure.
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
