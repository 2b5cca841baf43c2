"""Recognise the tensors that a program has as constants, and whether they have changed since."""
# pyright: basic, reportMissingImports=warning

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from runtime_ext.execution.buffers import content_key


class Snapshot:
    """The identity and the state of tensors, as cheap to compare as a call of a model needs.

    A tensor has changed if something wrote to it (torch counts this) or its memory is another.
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._tensors = [weakref.ref(tensor) for tensor in tensors]
        self._states = _states(tensors)

    def is_of(self, tensors: Sequence[Any]) -> bool:
        """Return whether these are the same tensors, whatever is in them."""
        return all(one() is other for one, other in zip(self._tensors, tensors, strict=True))

    def holds(self, tensors: Sequence[Any]) -> bool:
        """Return whether these are the same tensors, and unchanged."""
        return self._states == _states(tensors) and self.is_of(tensors)

    def changed(self, tensors: Sequence[Any]) -> list[int]:
        """Return the places of the tensors that have changed."""
        pairs = zip(self._states, _states(tensors), strict=True)
        return [place for place, (before, now) in enumerate(pairs) if before != now]

    @property
    def is_gone(self) -> bool:
        """Whether a tensor does not exist any more."""
        return any(tensor() is None for tensor in self._tensors)


def _states(tensors: Sequence[Any]) -> list[tuple[int, int]]:
    return [(tensor.data_ptr(), tensor._version) for tensor in tensors]


def content_digest(tensor: Any) -> str:
    """Return a tensor's type and shape, with the hash of its content."""
    import torch

    # NumPy has not all types of torch.
    content = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return f"{tensor.dtype}{list(tensor.shape)} {content_key(content)}"
