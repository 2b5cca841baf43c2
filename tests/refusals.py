"""What a refusal must say: of which class it is, and what it names; its words are its own."""

from __future__ import annotations

import re
from typing import Any

import pytest


def refused(kind: type[Exception], *names: object) -> Any:
    """Expect an error of a class, in one line that names things, as ``pytest.raises`` does.

    Parameters
    ----------
    kind
        The class.
    names
        What a user must find in it: names, numbers, paths, options, what to do.
    """
    return pytest.raises(kind, check=lambda error: require_names(str(error), *names))


def require_names(sentence: str, *names: object) -> bool:
    """Require one line with all names in it, each as a whole word."""
    assert sentence
    assert "\n" not in sentence
    for name in names:
        # A number is not part of a longer one.
        whole = re.sub(r"^(?=\w)|(?<=\w)$", r"\\b", re.escape(str(name)))
        assert re.search(whole, sentence), f"{name} is not in: {sentence}"
    return True
