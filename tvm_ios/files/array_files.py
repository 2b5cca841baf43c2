"""Read arrays from ``.npz`` and ``.npy`` files; write ``.npz`` and safetensors files."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from stat import S_IMODE
from typing import Any

import numpy as np

from tvm_ios.errors import UserError
from tvm_ios.files.atomic import write_atomically

Array = np.ndarray[Any, Any]


class ArrayFileError(UserError):
    """A file of arrays that cannot be read."""


def read_arrays(path: Path) -> dict[str, Array]:
    """Return all arrays of an ``.npz`` file, by name.

    Raise ArrayFileError if it is damaged, of another format, or holds pickled objects, which are
    never loaded.
    """
    arrays = _read(path)
    if isinstance(arrays, np.ndarray):
        raise ArrayFileError(f"{path} holds one array without a name: save it with numpy.savez")
    return arrays


def read_named_arrays(files: Sequence[str], names: Sequence[str]) -> dict[str, Array]:
    """Return the arrays of several files, by name.

    A file is an ``.npz`` file, or an ``.npy`` file given as ``NAME=FILE``; the name may be left out
    if ``names``, those that the caller needs, holds only one. Raise ArrayFileError if an array has
    no name, or as :func:`read_arrays`.
    """
    arrays: dict[str, Array] = {}
    for file in files:
        name, given, path = file.partition("=")
        if not given or Path(file).exists():
            name, path = "", file
        read = _read(Path(path))
        if isinstance(read, dict):
            if name:
                raise ArrayFileError(f"{path} names its arrays itself: leave out {name}=")
            arrays |= read
        elif name or len(names) == 1:
            arrays[name or names[0]] = read
        else:
            raise ArrayFileError(
                f"{path} holds one array without a name, and there are {', '.join(names)}: "
                f"give NAME={path}"
            )
    return arrays


def _read(path: Path) -> Array | dict[str, Array]:
    try:
        loaded: Any = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            return loaded
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except OSError:
        raise
    except Exception as error:  # whatever the bytes of an archive make NumPy do
        reason = " ".join(str(error).split()) or repr(error)
        if "contains pickled" in reason or isinstance(error, EOFError):
            # NumPy takes any file of an unknown format for a pickle.
            reason = "it is no .npz or .npy file; numpy.savez writes one"
        elif "allow_pickle" in reason:
            reason = "it holds Python objects, which are never loaded; save arrays of numbers"
        raise ArrayFileError(f"cannot read the arrays of {path}: {reason}") from error


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an ``.npz`` file atomically.

    Unlike :func:`numpy.savez` it takes arrays of any name, and adds no suffix to the path.
    """
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    write_atomically(path, stream.getvalue())


def save_tensors(
    arrays: Mapping[str, Array], path: Path, facts: Mapping[str, str] | None = None
) -> None:
    """Write a new safetensors file with the access rights that the umask gives."""
    from safetensors.numpy import (
        save_file,  # pyright: ignore[reportUnknownVariableType]
    )

    # The library gives no access to anyone but the file's owner.
    path.touch()
    access = path.stat().st_mode
    save_file(dict(arrays), path, None if facts is None else dict(facts))
    path.chmod(S_IMODE(access))
