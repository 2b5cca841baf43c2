"""The results of ``bench`` as one JSON document that grows network by network."""

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
    """What was measured so far, on one machine with one set of options.

    Parameters
    ----------
    machine
        What :func:`runtime_ext.cpu.machine_description.describe_machine` gave.
    settings
        The options that measurements depend on, as plain data.
    shapes
        Those of inputs with dynamic dimensions, by name, of what is added now.
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
        #: Of each model or runner that failed, a sentence.
        self.failed: list[dict[str, str | None]] = []
        self._networks: dict[str, dict[str, Any]] = {}

    def resume(self, path: Path) -> None:
        """Take over the networks of an earlier document.

        Raises
        ------
        UserError
            If it is no such document, or of another machine or other options.
        """
        try:
            data = json.loads(path.read_text())
            earlier, networks = data["machine"], {n["model"]: n for n in data["networks"]}
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
        """Whether a model was measured with these shapes."""
        return model in self._networks and self._networks[model]["shapes"] == self._shapes

    def add(self, result: NetworkResult | ServedResult) -> None:
        """Add what a model came to."""
        self._networks[result.model] = {**result.to_json(), "shapes": self._shapes}
        for runner, error in result.failed.items():
            self.add_failure(result.model, runner, error)

    def add_failure(self, model: str, runner: str | None, error: str) -> None:
        """Add a model that could not be measured, or a runner that could not run it."""
        self.failed.append({"model": model, "runner": runner, "error": " ".join(error.split())})

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
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
        """Write it to a file, whole or not at all."""
        write_atomically(path, (json.dumps(self.to_json(), indent=1) + "\n").encode())
