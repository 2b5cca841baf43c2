"""Files of arrays: any bytes are read or refused, any names are kept."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.refusals import refused
from tvm_ios.files.array_files import ArrayFileError, read_arrays, write_arrays

ARRAYS = {"file": np.arange(6.0).reshape(2, 3), "a/b.0": np.ones((), bool), "x": np.zeros(3)}


def test_arrays_come_back_under_their_names(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "y"
    write_arrays(path, ARRAYS)
    arrays_read = read_arrays(path)
    assert list(arrays_read) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays_read[name].dtype == array.dtype
        assert np.array_equal(arrays_read[name], array)
    with np.load(path) as by_numpy:
        assert by_numpy.files == list(ARRAYS)


def test_objects_are_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([{}], dtype=object))
    with refused(ArrayFileError, tmp_path / "x.npz", "Python objects"):
        read_arrays(tmp_path / "x.npz")


@pytest.mark.parametrize("content", [b"", b"token 1\n", b"\x80\x04N."])
def test_other_files_are_refused_by_what_they_are_not(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with refused(ArrayFileError, tmp_path / "x.npz", "numpy.savez"):
        read_arrays(tmp_path / "x.npz")


def _bytes() -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, x=np.arange(40.0))
    return stream.getvalue()


WHOLE = _bytes()


@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255), st.integers(1, len(WHOLE)))
def test_damaged_files_are_read_or_refused(
    tmp_path: Path, place: int, flip: int, length: int
) -> None:
    content = bytearray(WHOLE)
    content[place] ^= flip
    path = tmp_path / "x.npz"
    path.write_bytes(content[:length])
    with contextlib.suppress(ArrayFileError, OSError):
        assert set(read_arrays(path)) <= {"x"}
