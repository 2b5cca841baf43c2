"""The results of ``bench`` as one JSON document, to which networks are added one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tvm_ios.bench.bench import NetworkResult, geometric_means
from tvm_ios.bench.throughput import ServedResult
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import write_atomically


class BenchDocument:
    """The results so far, of one machine (``describe_machine``) and one set of options.

    ``shapes`` are those of inputs with dynamic dimensions, by name, for the networks added now.
    """

    def __init__(
        self,
        machine: Mapping[str, Any],
        settings: Mapping[str, Any],
        shapes: Mapping[str, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        self.machine = machine
        self.settings = settings
        self._shapes = {name: list(extents) for name, extents in shapes.items()}
        #: Models and runners that failed, with the reason of each in a sentence.
        self.failed: list[dict[str, str | None]] = []
        self._networks: dict[str, dict[str, Any]] = {}

    def resume(self, path: Path) -> None:
        """Take over the networks of an earlier document, if the file exists.

        Raise UserError if it is not such a document, or of another machine or other options.
        """
        try:
            data = json.loads(path.read_text())
            earlier, networks = data["machine"], {_name_of(n): n for n in data["networks"]}
            settings = dict(data["settings"])
            # Once they were one setting of all networks.
            shapes = settings.pop("shapes", {})
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is not what bench writes: choose another --output") from error
        same = ("processor", "lanes", "versions")
        if settings != self.settings or any(earlier[k] != self.machine[k] for k in same):
            raise UserError(
                f"{path} was measured with other options or on another machine: choose another "
                "--output, or leave out --resume to measure all again"
            )
        self._networks = {name: {"shapes": shapes, **row} for name, row in networks.items()}

    def has(self, model: str) -> bool:
        """Return whether the document has a model with these shapes."""
        return model in self._networks and self._networks[model]["shapes"] == self._shapes

    def add(self, result: NetworkResult | ServedResult) -> None:
        """Add a model's result and its runners that failed."""
        row = {"shapes": self._shapes, **result.to_json()}
        self._networks[_name_of(row)] = row
        for runner, error in result.failed.items():
            self.add_failure(result.model, runner, error)

    def add_failure(self, model: str, runner: str | None, error: str) -> None:
        """Add a model that could not be measured, or a runner that could not run it."""
        self.failed.append({"model": model, "runner": runner, "error": " ".join(error.split())})

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        networks = list(self._networks.values())
        ratios = [
            {runner: ratio["median"] for runner, ratio in network["ratio"].items()}
            for network in networks
        ]
        return {
            "machine": self.machine,
            "settings": self.settings,
            "networks": networks,
            "geomean": geometric_means(ratios),
            "failed": self.failed,
        }

    def save(self, path: Path) -> None:
        """Write the document to a file atomically."""
        write_atomically(path, (json.dumps(self.to_json(), indent=1) + "\n").encode())


def _name_of(network: Mapping[str, Any]) -> str:
    """Return the name of a document's network, with the shape of one for a range."""
    return " at ".join(filter(None, (network["model"], network.get("at"))))
