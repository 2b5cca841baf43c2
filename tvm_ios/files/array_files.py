"""Arrays by name in ``.npz`` files: read without trust, written whole or not at all."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tvm_ios.errors import UserError
from tvm_ios.files.atomic import write_atomically

Array = np.ndarray[Any, Any]


class ArrayFileError(UserError):
    """A file of arrays that cannot be read."""


def read_arrays(path: Path) -> dict[str, Array]:
    """All arrays of an ``.npz`` file.

    Raises
    ------
    ArrayFileError
        If the file is none, is damaged, or holds pickled objects, which are never loaded.
    OSError
        If the file cannot be opened.
    """
    try:
        arrays = np.load(path, allow_pickle=False)
        if isinstance(arrays, np.ndarray):
            raise ArrayFileError(f"{path} holds one array without a name: save it with numpy.savez")
        with arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ArrayFileError, OSError):
        raise
    except Exception as error:  # whatever the bytes of an archive make NumPy do
        reason = " ".join(str(error).split()) or repr(error)
        if "contains pickled" in reason or isinstance(error, EOFError):
            # What NumPy takes any file for that it does not know.
            reason = "it is no .npz file; numpy.savez writes one"
        elif "allow_pickle" in reason:
            reason = "it holds Python objects, which are never loaded; save arrays of numbers"
        raise ArrayFileError(f"cannot read the inputs {path}: {reason}") from error


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an ``.npz`` file; unlike :func:`numpy.savez` with any names, and under this one.

    Raises
    ------
    OSError
        If it cannot be written; nothing is left behind.
    """
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    write_atomically(path, stream.getvalue())
