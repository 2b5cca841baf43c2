"""Write files and make temporary folders so that a killed process leaves nothing half written."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Tells a folder of ours from a user's that is called alike; locked while its maker lives.
_LOCK = ".tvm-ios-temporary"


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file's content, or leave it as it was and raise OSError.

    A link's target is replaced, not the link; pipes and devices are written to directly.
    """
    if _is_special(path):
        try:
            path.write_bytes(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        return
    path = _named(path)
    make_folder(path.parent)
    with temporary_folder(path.parent, f".{path.name}.") as folder:
        new = folder / "new"
        try:
            with new.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            # Those of a full disk do not say where it is.
            raise OSError(error.errno, error.strerror, str(path)) from error
        os.replace(new, path)


def require_writable(path: Path) -> None:
    """Require that :func:`write_atomically` can write to a path, or raise OSError."""
    if _is_special(path):
        # Opening a pipe would wait for its reader.
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return
    path = _named(path)
    make_folder(path.parent)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    with temporary_folder(path.parent, f".{path.name}."):
        pass


def _is_special(path: Path) -> bool:
    """Return whether a path is a pipe or device, such as /dev/null, and must not be replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _named(path: Path) -> Path:
    """Return the final target of a link, which may be missing; any other path unchanged."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are missing; raises OSError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", error.filename) from error


@contextmanager
def temporary_folder(parent: Path | None = None, prefix: str = "tvm-ios-") -> Generator[Path]:
    """Make a folder that is removed at the end of the ``with`` block.

    It is made in the system's temporary folder unless a parent is given. Folders with the same
    prefix whose processes were killed are removed first.
    """
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    _sweep(parent, prefix)
    folder, lock = _make(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _make(parent: Path, prefix: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have swept the folder in the moment before it was locked.
        if os.fstat(lock).st_nlink:
            return folder, lock
        os.close(lock)


def _sweep(parent: Path, prefix: str) -> None:
    for lock_file in parent.glob(f"{_literal(prefix)}*/{_LOCK}"):
        # Someone else's, or gone already.
        with suppress(OSError):
            lock = os.open(lock_file, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock_file.parent, ignore_errors=True)
            finally:
                os.close(lock)


def _literal(text: str) -> str:
    """Return a glob pattern that matches only this text."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)
