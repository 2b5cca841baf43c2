"""The constants of a bundle by content, in a safetensors file or as a recipe for drawing them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from runtime_ext.execution.buffers import content_key
from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array, save_tensors
from tvm_ios.files.json_text import json_object, natural, naturals
from tvm_ios.files.plain_data import read_as

FILE = "weights.safetensors"
#: The least elements of a constant that is drawn: smaller ones (limits, shapes, biases) are saved.
_LEAST_ELEMENTS = 2048
#: NumPy's types by their names in the format.
_TYPES = {
    **{"BOOL": "bool", "F16": "float16", "F32": "float32", "F64": "float64"},
    **{f"I{n}": f"int{n}" for n in (8, 16, 32, 64)},
    **{f"U{n}": f"uint{n}" for n in (8, 16, 32, 64)},
}


@dataclass(frozen=True, slots=True)
class Draw:
    """A recipe that draws a random constant again, bit by bit the same everywhere.

    Uniform numbers of the mean and deviation of the constant that it replaces, from the raw bits of
    PCG64, which NumPy keeps stable.
    """

    shape: tuple[int, ...]
    dtype: str
    mean: float
    deviation: float
    seed: Annotated[int, range(1 << 63)]

    def array(self) -> Array:
        """Draw the constant."""
        raw = np.random.PCG64(self.seed).random_raw(math.prod(self.shape))
        uniform = (raw >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)
        width = np.float32(self.deviation * math.sqrt(12))
        drawn = (uniform - np.float32(0.5)) * width + np.float32(self.mean)
        return drawn.astype(self.dtype).reshape(self.shape)

    @staticmethod
    def like(array: Array, seed: int) -> Draw | None:
        """Return a draw that replaces a constant; None if the constant is saved as it is."""
        if array.dtype.kind != "f" or array.size < _LEAST_ELEMENTS:
            return None
        # The same constant is drawn alike wherever it is used.
        digest = hashlib.sha256(f"{seed}, {content_key(array)}".encode()).digest()
        mean, deviation = float(array.mean(dtype=np.float64)), float(array.std(dtype=np.float64))
        seed_of_draw = int.from_bytes(digest[:8], "little") >> 1
        return Draw(array.shape, str(array.dtype), mean, deviation, seed_of_draw)


@dataclass(frozen=True)
class Weights:
    """Constants by content key: some in a file, the others drawn."""

    file: Path
    drawn: Mapping[str, Draw]

    def __getitem__(self, key: str) -> Array:
        """Return a constant; raise UserError if it is missing or does not match its content key."""
        if key in self.drawn:
            array = self.drawn[key].array()
        elif key in self._header:
            array = self._read(self._header[key])
        else:
            raise UserError(f"{self.file} lacks the constant {key[:12]}: make the bundle again")
        if content_key(array) != key:
            raise UserError(f"{self.file} is damaged at {key[:12]}: make the bundle again")
        return array

    def _read(self, about: Mapping[str, Any]) -> Array:
        try:
            begin, end = naturals(about["data_offsets"])
            data = self._data[begin:end].tobytes()
            return np.frombuffer(data, _TYPES[about["dtype"]]).reshape(naturals(about["shape"]))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{self.file} misstates {error}: make the bundle again") from error

    @cached_property
    def _size(self) -> int:
        """Bytes of the file's header."""
        with self.file.open("rb") as stream:
            return int.from_bytes(stream.read(8), "little")

    @cached_property
    def _header(self) -> dict[str, Any]:
        try:
            with self.file.open("rb") as stream:
                stream.seek(8)
                return json_object(stream.read(natural(self._size)))
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read {self.file}: {error}") from error

    @cached_property
    def _data(self) -> Array:
        return np.memmap(self.file, np.uint8, "r", 8 + self._size)


def save_weights(
    folder: Path, arrays: Mapping[str, Array], drawn: Mapping[str, Draw]
) -> dict[str, dict[str, Any]]:
    """Write the constants that are not drawn; return the recipes of the others as plain data."""
    # Unlike ascontiguousarray, this leaves single numbers without an axis.
    saved = {key: np.asarray(a, order="C") for key, a in arrays.items() if key not in drawn}
    save_tensors(saved, folder / FILE)
    return {key: asdict(drawn[key]) for key in arrays if key in drawn}


def load_weights(folder: Path, drawn: Mapping[str, Any]) -> Weights:
    """Open the file that :func:`save_weights` wrote."""
    return Weights(folder / FILE, {key: read_as(Draw, data) for key, data in drawn.items()})
