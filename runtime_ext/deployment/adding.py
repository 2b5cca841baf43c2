"""Add a program to a deployment, by renames, with the registry last.

Other processes see whole files only: shared files come first, then the entry's folder, then the
registry, each under another name until it is complete. Files that are there already are not written
again: constants are found by their content, kernels by their symbols, which say what they compute.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import numpy as np
import safetensors.numpy

from runtime_ext.deployment.files import (
    ENTRIES,
    KERNELS,
    MODULE_FILE,
    NEW,
    UP,
    WEIGHTS,
    entry_folder,
    is_whole,
    shared_libraries,
)
from runtime_ext.deployment.writer import only_writer
from runtime_ext.execution.executable import Executable
from runtime_ext.execution.packages.kernel_files import TVM, kernel_file
from runtime_ext.execution.packages.package import VERSION_OF_PARTS, seal
from runtime_ext.execution.ports import Port
from runtime_ext.isa.levels import level_in
from tvm_ios.deployment.entry import Entry, OpenAxis, TensorType, batch_of
from tvm_ios.deployment.registry import DeploymentError, Registry, write_registry
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.files.digest import file_digest
from tvm_ios.files.swapping import swap_in
from tvm_ios.shapes.extent import is_open, symbols_of
from tvm_ios.shapes.ranges import range_of


class Export(Protocol):
    """A function that writes some kernels of a program to a file."""

    def __call__(self, path: Path, symbols: Iterable[str], /) -> None:
        """Write the kernels of these symbols."""
        ...


@dataclass(frozen=True)
class NewEntry:
    """A program to add to a deployment, with facts for its registry."""

    executable: Executable
    policy: str
    #: Writes the program's kernels; by default the executable's kernel files are copied.
    export: Export | None = None
    #: Lanes that it was scheduled for; by default those of the program.
    lanes: int | None = None
    #: Whether it may be given fewer rows than its batch.
    padding: bool = False

    latency_ms: float | None = None
    #: The machine where ``latency_ms`` was measured.
    device: str | None = None
    #: Remarks for its users, a sentence each.
    notes: tuple[str, ...] = ()


def add_entry(folder: Path, model: str, identity: str, new: NewEntry) -> Entry:
    """Add a program to a deployment, which is created if there is none.

    An entry for the same shapes, kind of machine and lanes is replaced. If the process is killed,
    the deployment is as before, or has the new entry. ``identity`` is the model's
    :func:`tvm_ios.models.identity.model_identity`. Raise DeploymentError if the folder has other
    files or a deployment of another model, cannot be written, or the program keeps states.
    """
    if new.executable.states:
        raise DeploymentError("a deployment keeps no states: make an executable for each shape")
    with (
        only_writer(folder, model, identity) as registry,
        temporary_folder(folder, NEW) as room,
    ):
        for place in (ENTRIES, WEIGHTS, KERNELS):
            (folder / place).mkdir(exist_ok=True)
        keys = new.executable.constant_keys()
        weights = _share_weights(folder, room, new.executable, keys)
        libraries = _share_kernels(folder, room, registry, new)
        own = room / "entry"
        own.mkdir()
        new.executable.write_program(own)
        shared = weights | {name: Path(name).stem for name in libraries}
        seal(
            own,
            new.executable.facts(keys)
            | {
                "version": VERSION_OF_PARTS,
                "weights": f"{UP}/{WEIGHTS}",
                "libraries": {f"{UP}/{name}": symbols for name, symbols in libraries.items()},
            },
            {f"{UP}/{name}": checksum for name, checksum in shared.items()},
        )
        entry = _entry(new, own)
        entry = replace(entry, bytes=_bytes(own.iterdir()) + _bytes(folder / f for f in shared))
        swap_in(own, entry_folder(folder, entry.id), room / "old")
        if not (folder / MODULE_FILE).exists():
            _write_new(room / MODULE_FILE, b"The deployment in this folder, as a module.\n")
            os.replace(room / MODULE_FILE, folder / MODULE_FILE)
        write_registry(folder, registry.having(entry))
    return entry


def _share_weights(
    folder: Path, room: Path, executable: Executable, keys: Mapping[str, str]
) -> dict[str, str]:
    """Write constants to files named by their content; return the files' checksums."""
    sums: dict[str, str] = {}
    for name, key in keys.items():
        file = f"{WEIGHTS}/{key}.safetensors"
        if file in sums:
            continue
        content = safetensors.numpy.save({key: np.asarray(executable.constants[name], order="C")})
        sums[file] = hashlib.sha256(content).hexdigest()
        # A damaged file is written again.
        if not (folder / file).is_file() or file_digest(folder / file) != sums[file]:
            _write_new(room / "weights", content)
            os.replace(room / "weights", folder / file)
    return sums


def _share_kernels(
    folder: Path, room: Path, registry: Registry, new: NewEntry
) -> dict[str, Sequence[str]]:
    """Write the kernels that no shared file has to a new one.

    Return the files that have the program's kernels, and for each the symbols taken from it.
    """
    executable, missing = new.executable, list(new.executable.program.kernels)
    libraries: dict[str, Sequence[str]] = {}
    # Symbols of other kernels say nothing of what they compute.
    if TVM in executable.packages:
        arch = _arch(executable)
        for entry in (entry for entry in registry.entries if entry.arch == arch):
            for name, symbols in shared_libraries(folder, entry.id).items():
                common = [symbol for symbol in missing if symbol in symbols]
                if common and is_whole(folder / name):
                    libraries[name] = [*libraries.get(name, ()), *common]
                    missing = [symbol for symbol in missing if symbol not in symbols]
    if missing and new.export is not None:
        file = room / kernel_file(executable.arch)
        new.export(file, missing)
        libraries[_share_library(folder, file)] = missing
    elif missing:
        for number, (source, symbols) in enumerate(executable.libraries.items()):
            needed = [symbol for symbol in symbols if symbol in missing]
            if needed:
                file = room / kernel_file(executable.arch, number)
                shutil.copyfile(source, file)
                libraries[_share_library(folder, file)] = needed
    return libraries


def _share_library(folder: Path, file: Path) -> str:
    _sync(file)
    name = f"{KERNELS}/{file_digest(file)}{file.suffix}"
    os.replace(file, folder / name)
    return name


def _entry(new: NewEntry, own: Path) -> Entry:
    executable = new.executable
    model_inputs, model_outputs = executable.model_ports()
    inputs = tuple(replace(_tensor_type(p), open=_open_axes(p)) for p in model_inputs)
    outputs = tuple(map(_tensor_type, model_outputs))
    arch, lanes = _arch(executable), new.lanes or len(executable.program.lanes)
    batch = batch_of(inputs)
    words = [arch, f"{lanes}l", *([] if batch is None else [f"b{batch}"])]
    is_of_range = any(port.open for port in inputs)
    words += ["range"] if is_of_range else []
    return Entry(
        id="-".join([*words, file_digest(own / "SHA256SUMS")[:8]]),
        arch=arch,
        features=executable.features,
        lanes=lanes,
        inputs=inputs,
        outputs=outputs,
        batch=batch,
        padding=new.padding and batch is not None and not is_of_range,
        policy=new.policy,
        latency_ms=new.latency_ms,
        device=new.device,
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        bytes=0,
        notes=new.notes,
    )


def _arch(executable: Executable) -> str:
    if executable.arch is not None:
        return executable.arch
    processor = re.search(r'mcpu"?[=:]"?([\w.-]+)', executable.target)
    return level_in(executable.target) or (processor[1] if processor else "")


def _tensor_type(port: Port) -> TensorType:
    shape = tuple(-1 if is_open(extent) else extent for extent in port.shape)
    return TensorType(port.name, shape, port.dtype)


def _open_axes(port: Port) -> tuple[OpenAxis, ...]:
    """Return the open dimensions of an input: multiples of one symbol, and a number."""
    axes: list[OpenAxis] = []
    for place, extent in enumerate(port.shape):
        if not is_open(extent):
            continue
        symbols = symbols_of(extent)
        if len(symbols) != 1:
            raise DeploymentError(f"input {port.name!r} has the extent {extent}, of two symbols")
        numbers = range_of(extent)
        axes.append(OpenAxis(place, symbols[0].name, numbers.least, numbers.most, numbers.step))
    return tuple(axes)


def _bytes(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def _write_new(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    _sync(file)


def _sync(file: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
