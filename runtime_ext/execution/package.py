"""A sealed package: a folder of files, or a tar of it, with checksums, written whole or not."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import shutil
import tarfile
import weakref
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError
from tvm_ios.files.atomic import make_folder, temporary_folder
from tvm_ios.files.json_text import JsonError, json_object

FORMAT = "tvm-ios executable"
VERSION = 3
_META = "meta.json"
#: From <fcntl.h> and <linux/fs.h>.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class ExecutableError(UserError):
    """An executable that cannot be written or used here: one sentence with the reason."""


@dataclass(frozen=True)
class Package:
    """An opened package whose files are as they were written.

    Attributes
    ----------
    folder
        Where its files lie.
    meta
        What was written with them.
    keeper
        Holds the folder of an unpacked tar; when it goes, the folder goes.
    """

    folder: Path
    meta: Mapping[str, Any]
    keeper: object = None


def require_writable(path: Path) -> None:
    """Find out before long work whether :func:`write_package` could write here.

    Raises
    ------
    ExecutableError
        If something else is there, or its folder cannot be written.
    """
    path = Path(os.path.abspath(path))
    if path.exists() and not _replaceable(path):
        raise ExecutableError(f"{path} exists and is not an executable; choose another name")
    try:
        make_folder(path.parent)
        with temporary_folder(path.parent, f".{path.name}."):
            pass
    except OSError as error:
        raise ExecutableError(f"cannot write {path}: {error.strerror or error}") from error


def write_package(path: Path, meta: Mapping[str, Any], fill: Callable[[Path], None]) -> None:
    """Write a package beside its place and move it there when it is complete.

    Parameters
    ----------
    path
        A folder to be, or a file if it ends in ``.tar``. A package there is replaced.
    meta
        Plain data to keep with the files.
    fill
        Writes the files into a folder.

    Raises
    ------
    ExecutableError
        If something else is there, or it cannot be written; nothing is left behind then.
    """
    path = Path(os.path.abspath(path))
    require_writable(path)
    try:
        with temporary_folder(path.parent, f".{path.name}.") as room:
            folder = room / "new"
            folder.mkdir()
            fill(folder)
            _seal(folder, meta)
            if path.suffix == ".tar":
                packed = room / "new.tar"
                with tarfile.open(packed, "w") as tar:
                    for file in sorted(folder.iterdir()):
                        tar.add(file, arcname=file.name)
                _sync(packed)
                os.replace(packed, path)
            else:
                _swap_in(folder, path, room / "old")
    except OSError as error:
        raise ExecutableError(f"cannot write {path}: {error.strerror or error}") from error


def open_package(path: Path, names: Collection[str]) -> Package:
    """Open a package and check that every byte is as written.

    Parameters
    ----------
    path
        Of the package.
    names
        The files that it must hold; others are left alone.

    Raises
    ------
    ExecutableError
        Naming the first thing that does not fit.
    """
    if not path.exists():
        raise ExecutableError(f"there is no executable {path}")
    keeper: _Keeper | None = None
    folder = path
    try:
        if not path.is_dir():
            keeper = _Keeper()
            folder = keeper.folder
            _unpack(path, folder)
        package = Package(folder, _read_meta(path, folder), keeper)
    except OSError as error:
        raise ExecutableError(f"cannot read {path}: {error.strerror or error}") from error
    require_files(path, package, names)
    return package


def require_files(path: Path, package: Package, names: Collection[str]) -> None:
    """Check that a package holds some files and that every byte of them is as written.

    Raises
    ------
    ExecutableError
        Naming the first file that does not fit.
    """
    digests = package.meta["files"]
    try:
        for name in names:
            if name not in digests or not (package.folder / name).is_file():
                raise ExecutableError(f"{path} lacks {name}; save it again")
            if _digest(package.folder / name) != digests[name]:
                raise ExecutableError(f"{name} of {path} is damaged; save it again")
    except OSError as error:
        raise ExecutableError(f"cannot read {path}: {error.strerror or error}") from error


class _Keeper:
    """A folder that goes when this does, or at the latest when the process ends."""

    def __init__(self) -> None:
        stack = ExitStack()
        self.folder = stack.enter_context(temporary_folder())
        weakref.finalize(self, stack.close)


def meta_checksum(meta: Mapping[str, Any]) -> str:
    """SHA-256 of the meta data without its own checksum."""
    rest = {key: value for key, value in meta.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _seal(folder: Path, meta: Mapping[str, Any]) -> None:
    files = sorted(folder.iterdir())
    whole: dict[str, Any] = {"format": FORMAT, "version": VERSION, **meta}
    whole["files"] = {file.name: _digest(file) for file in files}
    # Through JSON once, so that the checksum is of what a reader gets (lists for tuples).
    whole = json.loads(json.dumps(whole))
    whole["checksum"] = meta_checksum(whole)
    (folder / _META).write_text(json.dumps(whole, indent=1))
    for file in (*files, folder / _META):
        _sync(file)


def _read_meta(path: Path, folder: Path) -> dict[str, Any]:
    try:
        meta = json_object((folder / _META).read_bytes())
    except FileNotFoundError:
        raise ExecutableError(f"{path} is not an executable: it lacks {_META}") from None
    except JsonError as error:
        raise ExecutableError(f"{_META} of {path} is damaged; save it again") from error
    if meta.get("format") != FORMAT:
        raise ExecutableError(f"{path} is not a {FORMAT}")
    if meta.get("version") != VERSION:
        raise ExecutableError(
            f"{path} is of format version {meta.get('version')} and this tvm-ios reads "
            f"{VERSION}; save it again with this one"
        )
    files = meta.get("files")
    if meta.get("checksum") != meta_checksum(meta) or not isinstance(files, dict):
        raise ExecutableError(f"{_META} of {path} is damaged; save it again")
    return meta


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
    """Whether nothing is lost that we have not written: our own package, or an empty folder."""
    try:
        if path.is_dir():
            found = {file.name for file in path.iterdir()}
            meta = json_object((path / _META).read_bytes()) if found else {}
            ours = not found or (meta["format"] == FORMAT and found <= {*meta["files"], _META})
            return path.suffix != ".tar" and ours
        with tarfile.open(path, "r:") as tar:
            member = tar.extractfile(_META)
            return (
                path.suffix == ".tar"
                and member is not None
                and json_object(member.read()).get("format") == FORMAT
            )
    except (OSError, KeyError, ValueError, TypeError, EOFError, tarfile.TarError):
        return False


def _swap_in(folder: Path, path: Path, aside: Path) -> None:
    """Put a folder where another may be; what was there is then in the place of the first."""
    try:
        os.rename(folder, path)
    except OSError as error:
        # It replaces nothing and empty folders only.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if _exchange(folder, path):
            return
        os.rename(path, aside)
        try:
            os.rename(folder, path)
        except OSError:
            os.rename(aside, path)
            raise


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step, so that a kill loses neither; False where that is not known.

    Python has no name for it, and not every file system has it.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        return False
    done = library.renameat2(
        *(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    )
    code = ctypes.get_errno()
    if done and code not in (errno.EINVAL, errno.ENOSYS):
        raise OSError(code, os.strerror(code), str(other))
    return not done


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(file: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
