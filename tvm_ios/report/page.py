"""Render documents into one HTML page that contains everything it needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from tvm_ios.errors import UserError

#: In the order of their dependences.
_SCRIPTS = (
    *("format.js", "state.js", "colours.js", "layout.js"),
    *("graph.js", "timeline.js", "arena.js", "blocks.js", "units.js", "policies.js"),
    *("search.js", "main.js"),
)
_VENDOR = ("d3.min.js", "dagre.min.js")


def render(documents: Sequence[Mapping[str, Any]], title: str) -> str:
    """Return the page of one executable, or of two side by side.

    Documents are those of :func:`tvm_ios.api.documents.page.page_document`. Raise UserError if
    jinja2 is not installed, or a vendored library was changed.
    """
    # Where programs only run it need not be installed.
    try:
        from jinja2 import Environment
    except ImportError as error:
        raise UserError("a page needs jinja2: pip install jinja2") from error

    folder = resources.files("tvm_ios.report")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((folder / "page.html").read_text("utf-8"))
    return template.render(
        title=title,
        style=(folder / "page.css").read_text("utf-8"),
        libraries=[_library(folder / "vendor", name) for name in _VENDOR],
        licences=list(_licences(folder / "vendor")),
        scripts=[(folder / "scripts" / name).read_text("utf-8") for name in _SCRIPTS],
        data=_embedded({"executables": list(documents)}),
    )


def _embedded(data: Any) -> str:
    """Return JSON that can stand in an HTML element: ``<`` and line separators are escaped."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _library(vendor: Traversable, name: str) -> str:
    content = (vendor / name).read_bytes()
    sums: dict[str, str] = {}
    for line in (vendor / "SHA256SUMS").read_text("utf-8").splitlines():
        checksum, file = line.split()
        sums[file] = checksum
    if hashlib.sha256(content).hexdigest() != sums[name]:
        raise UserError(f"{name} is not as it was released: install tvm-ios again")
    lines = content.decode("utf-8").splitlines()
    # There are no source maps in a page.
    return "\n".join(line for line in lines if not line.startswith("//# sourceMappingURL="))


def _licences(vendor: Traversable) -> Iterator[str]:
    for name in ("d3.LICENSE", "dagre.LICENSE"):
        yield (vendor / name).read_text("utf-8").strip()
