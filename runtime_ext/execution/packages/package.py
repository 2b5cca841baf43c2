"""A sealed package: a folder of files, or a tar of it, with checksums, written whole or not at all.

``SHA256SUMS`` has the checksum of every other file's bytes, as ``sha256sum -c`` reads it. The C++
loader (``runtime_ext/native/executable.cc``) checks them; it also reads packages of version 3,
which have the checksums in ``meta.json``.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Any

from runtime_ext.native_errors import ExecutableError
from tvm_ios.files.atomic import make_folder, temporary_folder
from tvm_ios.files.digest import file_digest
from tvm_ios.files.json_text import json_object
from tvm_ios.files.swapping import swap_in

FORMAT = "tvm-ios executable"
VERSION = 4
#: The version of packages that have several files of kernels, or share files with others.
VERSION_OF_PARTS = 5
META = "meta.json"
#: The file of checksums; packages of version 3 have none.
_SUMS = "SHA256SUMS"
#: Suffixes of archives that are not supported.
_ARCHIVES = frozenset({".zip", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z"})


def require_writable(path: Path) -> None:
    """Require, before long work, that :func:`write_package` can write here.

    Raise ExecutableError if something else is there, or its folder cannot be written.
    """
    path = Path(os.path.abspath(path))
    if path.suffix in _ARCHIVES:
        raise ExecutableError(
            f"{path} would be a folder of this name: name a folder, or a file that ends in .tar"
        )
    if path.exists() and not _replaceable(path):
        extra = _extra_files(path)
        raise ExecutableError(
            f"{path} also holds {extra[0]!r}, which is no file of the executable: move it away"
            if extra
            else f"{path} exists and is not an executable; choose another name"
        )
    try:
        make_folder(path.parent)
        with temporary_folder(path.parent, f".{path.name}."):
            pass
    except OSError as error:
        raise ExecutableError(f"cannot write {path}: {error.strerror or error}") from error


def require_version(what: str, name: str, made_with: str, or_else: str) -> None:
    """Require that the package's installed version equals ``made_with`` in major and minor number.

    Otherwise raise ExecutableError: ``what`` begins its sentence, ``or_else`` ends it with what to
    do instead.
    """
    try:
        installed = metadata.version(name)
    except metadata.PackageNotFoundError:
        installed = "none"
    # Patch releases keep the binary interface of kernels.
    if installed.split(".")[:2] != made_with.split(".")[:2]:
        raise ExecutableError(
            f"{what} with {name} {made_with} and here is {installed}; install that version or "
            f"{or_else}"
        )


def write_package(path: Path, meta: Mapping[str, Any], fill: Callable[[Path], None]) -> None:
    """Write a package beside its place and move it there when it is complete.

    ``path`` is a folder, or a file if it ends in ``.tar``; a package there is replaced. ``meta``
    goes to ``meta.json``; ``fill`` writes the other files into a folder. Raise ExecutableError,
    leaving nothing behind, if something else is there or it cannot be written.
    """
    path = Path(os.path.abspath(path))
    require_writable(path)
    try:
        with temporary_folder(path.parent, f".{path.name}.") as room:
            folder = room / "new"
            folder.mkdir()
            fill(folder)
            seal(folder, meta)
            if path.suffix == ".tar":
                tar_file = room / "new.tar"
                with tarfile.open(tar_file, "w") as tar:
                    for file in sorted(folder.iterdir()):
                        tar.add(file, arcname=file.name)
                _sync(tar_file)
                os.replace(tar_file, path)
            else:
                swap_in(folder, path, room / "old")
    except OSError as error:
        raise ExecutableError(f"cannot write {path}: {error.strerror or error}") from error


def open_folder(path: Path) -> tuple[Path, object]:
    """Return the folder of a package, and for a tar the owner of the folder that it is unpacked to.

    ``path`` is a folder, a tar, or the file ``model.tvm_ios`` in a folder. Raise ExecutableError if
    a tar is incomplete, or holds more than plain files.
    """
    if not path.is_file() or path.suffix == ".tvm_ios":
        return path, None
    try:
        keeper = _Keeper()
        _unpack(path, keeper.folder)
    except OSError as error:
        raise ExecutableError(f"cannot read {path}: {error.strerror or error}") from error
    return keeper.folder, keeper


def seal(
    folder: Path, meta: Mapping[str, Any] | None = None, shared: Mapping[str, str] | None = None
) -> None:
    """Write the checksums of a folder's files as they are now, and sync all of them.

    ``meta``, if given, is written to ``meta.json`` first. ``shared`` has the checksums of files
    outside the folder that the package needs, by relative path.
    """
    if meta is not None:
        content = {"format": FORMAT, "version": VERSION, **meta}
        (folder / META).write_text(json.dumps(content, indent=1))
    files = sorted(file for file in folder.iterdir() if file.name != _SUMS)
    sums = {file.name: file_digest(file) for file in files} | dict(shared or {})
    (folder / _SUMS).write_text("".join(f"{sums[name]}  {name}\n" for name in sums))
    for file in (*files, folder / _SUMS):
        _sync(file)


def sealed_sums(folder: Path) -> dict[str, str]:
    """Read the checksum of each file of a package, by name; raise OSError if that fails."""
    lines = (folder / _SUMS).read_text().splitlines()
    return {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}


def require_sums(folder: Path, path: Path) -> None:
    """Require that a package's files are as they were sealed, as the C++ loader does.

    Raise ExecutableError naming the first damaged or missing file; ``path`` is the package's name
    in messages.
    """
    for name, checksum in sealed_sums(folder).items():
        file = folder / name
        if Path(name).name != name or not file.is_file():
            raise ExecutableError(f"{path} lacks {name}; save it again")
        if file_digest(file) != checksum:
            raise ExecutableError(f"{name} of {path} is damaged; save it again")


class _Keeper:
    """The owner of a temporary folder, which is removed with it, or when the process ends."""

    def __init__(self) -> None:
        stack = ExitStack()
        self.folder = stack.enter_context(temporary_folder())
        weakref.finalize(self, stack.close)


def _unpack(path: Path, folder: Path) -> None:
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                plain = member.isreg() and not member.issparse()
                if not plain or member.name != Path(member.name).name:
                    raise ExecutableError(
                        f"{path} holds {member.name!r}, which is no file of an executable; "
                        "save it again"
                    )
                # Not `extract`: its filters came with the last patch releases of Python 3.11.
                content = tar.extractfile(member)
                assert content is not None, "a regular file has content"
                with content, (folder / member.name).open("wb") as file:
                    shutil.copyfileobj(content, file)
    except ExecutableError:
        raise
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise ExecutableError(f"{path} is not a complete tar file: {error}") from error


def _replaceable(path: Path) -> bool:
    """Return whether a path may be overwritten: it is an empty folder or a package of ours."""
    try:
        if path.is_dir():
            files = {file.name for file in path.iterdir()}
            is_ours = not files or files <= _sealed_files(path)
            return path.suffix != ".tar" and is_ours
        with tarfile.open(path, "r:") as tar:
            member = tar.extractfile(META)
            return (
                path.suffix == ".tar"
                and member is not None
                and json_object(member.read()).get("format") == FORMAT
            )
    except (OSError, KeyError, ValueError, TypeError, EOFError, tarfile.TarError):
        return False


def _extra_files(path: Path) -> list[str]:
    """Return the files in a package's folder that are not its own; none if it is no package."""
    try:
        sealed = _sealed_files(path) if path.is_dir() else set[str]()
    except (OSError, KeyError, ValueError, TypeError):
        return []
    return sorted(file.name for file in path.iterdir() if file.name not in sealed) if sealed else []


def _sealed_files(folder: Path) -> set[str]:
    """Return the names of a package's files; empty for another folder."""
    meta = json_object((folder / META).read_bytes())
    if meta["format"] != FORMAT:
        return set()
    if meta["version"] < VERSION:
        return {*meta["files"], META}
    return {*sealed_sums(folder), _SUMS}


def _sync(file: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
