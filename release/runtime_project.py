"""The project `tvm-ios-runtime`: the sources of `tvm-ios` with fewer requirements.

An extra can add requirements and take none away, so an installation without TVM is a distribution
of its own: the same packages of the same version, which need only what runs executables.
``[tool.tvm-ios.runtime]`` in ``pyproject.toml`` says how it differs.
"""

from __future__ import annotations

import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import tomli_w
from packaging.requirements import Requirement


def make_runtime_project(sources: Path) -> Path:
    """Turn the unpacked sources of `tvm-ios` into those of `tvm-ios-runtime`; the same folder."""
    path = sources / "pyproject.toml"
    document = runtime_document(tomllib.loads(path.read_text()))
    path.write_text(tomli_w.dumps(document))
    # scikit-build-core makes another one.
    (sources / "PKG-INFO").unlink(missing_ok=True)
    return sources


def runtime_document(document: dict[str, Any]) -> dict[str, Any]:
    """The ``pyproject.toml`` of the runtime, from that of the project.

    Raises
    ------
    ValueError
        If the runtime is said to need what the project does not require.
    """
    project, runtime = document["project"], document["tool"]["tvm-ios"]["runtime"]
    text_by_name = {Requirement(text).name: text for text in project["dependencies"]}
    named = {*runtime["dependencies"], *chain(*runtime["extras"].values())}
    if unknown := named - text_by_name.keys():
        raise ValueError(f"{', '.join(sorted(unknown))}: not among the project's dependencies")
    changed = {
        **project,
        "name": runtime["name"],
        "description": runtime["description"],
        "dependencies": [text_by_name[name] for name in runtime["dependencies"]],
        "optional-dependencies": {
            extra: [text_by_name[name] for name in names]
            for extra, names in runtime["extras"].items()
        },
    }
    # The backend of torch.compile compiles.
    del changed["entry-points"]
    tool = {name: table for name, table in document["tool"].items() if name in _TABLES}
    return {**document, "project": changed, "tool": tool}


#: Those that building needs.
_TABLES = ("cibuildwheel", "scikit-build")
