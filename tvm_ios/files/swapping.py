"""Replace a folder by another in one step."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

#: From <fcntl.h> and <linux/fs.h>.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def swap_in(folder: Path, path: Path, aside: Path) -> None:
    """Move a folder to a path.

    What was at the path is afterwards at the folder's former path, or at ``aside`` if the system
    cannot exchange two names.
    """
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


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step, so that a kill loses neither.

    Return False if the system or the file system does not support it.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        return False
    failed = library.renameat2(
        *(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
    )
    code = ctypes.get_errno()
    if failed and code not in (errno.EINVAL, errno.ENOSYS):
        raise OSError(code, os.strerror(code), str(second))
    return not failed
