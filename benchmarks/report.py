"""What every benchmark writes down: its figures, and the machine they hold for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runtime_ext.cpu.machine_description import describe_machine
from runtime_ext.machine.this_machine import available_lanes
from tvm_ios.files.atomic import write_atomically

RESULTS = Path(__file__).parent / "results"

#: Networks of the onnx wheel, of many small operators or few large ones.
LIGHT = (
    "light_squeezenet",
    "light_inception_v1",
    "light_inception_v2",
    "light_resnet50",
    "light_densenet121",
    "light_shufflenet",
)


def write_result(name: str, figures: Any) -> Path:
    path = RESULTS / f"{name}.json"
    content = {
        "benchmark": name,
        "machine": describe_machine(available_lanes()),
        "figures": figures,
    }
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
    return path


def update_result(name: str, rows: Sequence[dict[str, Any]], *fields: str) -> None:
    """Write rows in place of earlier ones that agree with one of them in some fields."""
    new = {tuple(row[field] for field in fields) for row in rows}
    kept = [r for r in read_figures(name) if tuple(r[field] for field in fields) not in new]
    write_result(name, [*kept, *rows])


def read_figures(name: str) -> list[Any]:
    """What an earlier run wrote, or nothing."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text())["figures"] if path.exists() else []


def model_of(network: str) -> str:
    """What commands know a network by: ``light_...`` are real ones that the onnx wheel carries.

    The weights of these are constant-valued.
    """
    if not network.startswith("light_"):
        return network
    import onnx

    return str(Path(onnx.__file__).parent / "backend/test/data/light" / f"{network}.onnx")
