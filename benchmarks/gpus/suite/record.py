"""What has been measured, in two files that are all that has to be brought back.

``gpu.json`` has every result; ``state.tar.gz`` the logs and schedules of the bundles, so that
another machine can go on.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tarfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

RECORD, STATE = "gpu.json", "state.tar.gz"
_PACKAGES = ("torch", "onnxruntime", "onnxscript", "numpy", "cuda-bindings", "apache-tvm-ffi")
#: What a search goes on from: logs, schedules.
_STATE_SUFFIXES = (".jsonl", ".json")


@dataclass
class Record:
    """The results so far."""

    #: Where they are written, after every part.
    folder: Path
    #: By key, of each part its result; under ``late`` and ``failed`` why others have none.
    slices: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    #: On which something was measured.
    machines: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def write(self) -> None:
        """Write ``gpu.json``."""
        data = {"machines": self.machines, "slices": self.slices}
        new = self.folder / f"{RECORD}.new"
        new.write_text(json.dumps(data, indent=1))
        os.replace(new, self.folder / RECORD)

    def write_state(self, work: Path) -> None:
        """Write ``state.tar.gz``."""
        new = self.folder / f"{STATE}.new"
        with tarfile.open(new, "w:gz") as archive:
            for path in sorted(work.glob("*/results/**/*")):
                if path.suffix in _STATE_SUFFIXES and path.is_file():
                    archive.add(path, path.relative_to(work))
        os.replace(new, self.folder / STATE)


def open_record(folder: Path, before: Path) -> Record:
    """The record in a folder, or else that of another one, which an earlier machine may have made.

    Parameters
    ----------
    folder
        For results.
    before
        The other one; its state is taken over.
    """
    folder.mkdir(parents=True, exist_ok=True)
    record = Record(folder)
    source = folder if (folder / RECORD).exists() else before
    if (source / RECORD).exists():
        data = json.loads((source / RECORD).read_text())
        record.slices, record.machines = data["slices"], data["machines"]
    if source != folder and (source / STATE).exists():
        (folder / STATE).write_bytes((source / STATE).read_bytes())
    return record


def restore_state(record: Record, bundle: Path) -> None:
    """Put into a bundle that was just unpacked what an earlier machine measured of it."""
    if (record.folder / STATE).exists():
        with tarfile.open(record.folder / STATE) as archive:
            members = [m for m in archive.getmembers() if m.name.startswith(f"{bundle.name}/")]
            unpack(archive, bundle.parent, members)


def unpack(
    archive: tarfile.TarFile, folder: Path, members: list[tarfile.TarInfo] | None = None
) -> None:
    """Unpack an archive, or some members, and write nothing outside of the folder.

    Raise TarError if a member leads outside. Python 3.11 has the filter from 3.11.4, and that of
    Debian 12 is older.
    """
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, members, filter="data")
        return
    for member in members or archive.getmembers():
        paths = [PurePosixPath(name) for name in (member.name, member.linkname)]
        if member.isdev() or any(path.is_absolute() or ".." in path.parts for path in paths):
            raise tarfile.ReadError(f"{member.name} would be written outside of {folder}")
    archive.extractall(folder, members)


def this_machine() -> dict[str, Any]:
    """What results depend on."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm"]
    try:
        answer = subprocess.run(
            [*query, "--format=csv,noheader"], capture_output=True, text=True, timeout=60
        )
        gpu = answer.stdout.strip() if answer.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        gpu = ""
    versions: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "gpu": gpu or "nvidia-smi names none",
        "cpus": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
