"""Launch graphs as files, for simulators and boards that run elsewhere, and their recorded times.

A folder has ``NAME.json`` for each graph, ``code/SHA256.ptx`` or ``.cubin`` for its kernels, and
``data/SHA256.npy`` for the contents of buffers. Equal code and data of several graphs are stored
once.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array
from tvm_ios.files.atomic import make_folder, write_atomically
from tvm_ios.files.json_text import json_object
from tvm_ios.files.plain_data import read_as
from tvm_ios.measuring.launch_graph import GraphBuffer, KernelLaunch, LaunchGraph
from tvm_ios.program.program import BufferType, Role

_FORMAT, _VERSION = "tvm-ios launches", 1


def write_launches(graph: LaunchGraph, path: Path) -> None:
    """Write a graph as ``path``, a ``.json`` file, with its code and data beside it."""
    suffix = "ptx" if graph.arch.startswith("compute_") else "cubin"
    make_folder(path.parent)
    for key, code in graph.code.items():
        _write_new(path.parent / "code" / f"{key}.{suffix}", code)
    contents = [_write_content(path.parent, buffer.content) for buffer in graph.buffers]
    data = {
        "format": _FORMAT,
        "version": _VERSION,
        "digest": graph.digest,
        "model": graph.model,
        "policy": graph.policy,
        "arch": graph.arch,
        "buffers": [
            {
                "name": buffer.name,
                "shape": buffer.type.shape,
                "dtype": buffer.type.dtype,
                "role": buffer.role,
                "data": content,
            }
            for buffer, content in zip(graph.buffers, contents, strict=True)
        ],
        "launches": [
            {
                "unit": launch.unit,
                "key": launch.key,
                **asdict(launch),
                "code": f"code/{launch.code}.{suffix}",
            }
            for launch in graph.launches
        ],
    }
    write_atomically(path, json.dumps(data, indent=1).encode())


def read_launches(path: Path) -> LaunchGraph:
    """Read a graph that :func:`write_launches` wrote.

    Raise UserError if the file is something else, or a file is missing or damaged.
    """
    try:
        data = json_object(path.read_bytes())
        if (data["format"], data["version"]) != (_FORMAT, _VERSION):
            raise UserError(f"{path} is not a {_FORMAT} of version {_VERSION}")
        files = {str(launch["code"]) for launch in data["launches"]}
        graph = LaunchGraph(
            arch=str(data["arch"]),
            code={Path(file).stem: (path.parent / file).read_bytes() for file in files},
            buffers=tuple(_buffer(path.parent, buffer) for buffer in data["buffers"]),
            launches=tuple(map(_launch, data["launches"])),
            model=str(data["model"]),
            policy=str(data["policy"]),
        )
        code_is_whole = all(_sha256(code) == key for key, code in graph.code.items())
        if graph.digest != data["digest"] or not code_is_whole:
            raise UserError(f"{path}, or what lies beside it, is damaged: write it again")
        return graph
    except OSError as error:
        raise UserError(f"cannot read {error.filename}: {error.strerror or error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path} lacks or misstates {error}: write it again") from error


def _buffer(folder: Path, data: Any) -> GraphBuffer:
    file = data["data"]
    content = None if file is None else np.load(folder / str(file), allow_pickle=False)
    return GraphBuffer(str(data["name"]), read_as(BufferType, data), Role(data["role"]), content)


def _launch(data: Any) -> KernelLaunch:
    return read_as(KernelLaunch, {**data, "code": Path(str(data["code"])).stem})


def _write_content(folder: Path, content: Array | None) -> str | None:
    """Write a buffer's content, and return its path in the folder; None if it has none."""
    if content is None:
        return None
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(content), allow_pickle=False)
    name = f"data/{_sha256(stream.getvalue())}.npy"
    _write_new(folder / name, stream.getvalue())
    return name


def _write_new(path: Path, content: bytes) -> None:
    if not path.exists():
        make_folder(path.parent)
        write_atomically(path, content)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
