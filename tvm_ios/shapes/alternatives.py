"""Several shapes of a model's inputs at once: ``x:1,3,48,{160,320}``, or an input named again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product

from tvm_ios.shapes.input_shapes import InputShapeError, parse_shapes

_BRACES = re.compile(r"\{([^{}]*)\}")


def alternative_shapes(texts: Iterable[str]) -> list[dict[str, tuple[int, ...]]]:
    """Return all combinations of the shapes given for inputs; one empty one if none is given.

    Braces are expanded as a shell does, which may have done so before: then an input is named
    several times. Raise InputShapeError if a text is not of the form ``input:1,3,224,224``, or is
    given twice.
    """
    of_input: dict[str, dict[tuple[int, ...], None]] = {}
    for text in texts:
        for plain in _without_braces(text):
            ((name, shape),) = parse_shapes([plain]).items()
            if shape in of_input.setdefault(name, {}):
                raise InputShapeError(f"{plain!r} is given twice")
            of_input[name][shape] = None
    return [dict(zip(of_input, shapes, strict=True)) for shapes in product(*of_input.values())]


def _without_braces(text: str) -> list[str]:
    found = _BRACES.search(text)
    if found is None:
        return [text]
    before, after = text[: found.start()], text[found.end() :]
    return [
        plain
        for choice in found[1].split(",")
        for plain in _without_braces(f"{before}{choice}{after}")
    ]
