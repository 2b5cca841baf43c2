"""What every benchmark writes down: its figures, and the machine they hold for."""

from __future__ import annotations

import datetime
import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from runtime_ext.machine import available_lanes, instruction_level, processor
from tvm_ios.files import write_atomically

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    packages = ("apache-tvm", "apache-tvm-ffi", "numpy", "onnx", "onnxruntime")
    return {
        "processor": processor(),
        "instruction_level": instruction_level(),
        "lanes": available_lanes(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in packages},
        "date": datetime.date.today().isoformat(),
    }


def write_result(name: str, figures: Any) -> Path:
    path = RESULTS / f"{name}.json"
    content = {"benchmark": name, "machine": machine(), "figures": figures}
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
    return path


def read_figures(name: str) -> list[Any]:
    """What an earlier run wrote, or nothing."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text())["figures"] if path.exists() else []


def light_model(name: str) -> str:
    """A real network that the onnx wheel carries (its weights are constant-valued)."""
    import onnx

    return str(Path(onnx.__file__).parent / "backend/test/data/light" / f"light_{name}.onnx")
