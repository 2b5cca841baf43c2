"""Write HTML pages that show executables, and results of bundles from other machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.api.documents.bundle import bundle_document, is_bundle
from tvm_ios.api.documents.executable import executable_document
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import require_writable, write_atomically
from tvm_ios.report.page import render

if TYPE_CHECKING:
    from tvm_ios.measuring.timing_device import TimingDevice


def require_page(path: Path) -> None:
    """Require that a page can be written at a path, before long work.

    Raise UserError if its name does not end in ``.html`` or ``.htm``, OSError if it is not
    writable.
    """
    if path.suffix not in (".html", ".htm"):
        raise UserError(f"{path} is no name of a page: it must end in .html")
    require_writable(path)


def write_page(documents: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the HTML page of one document, or of two side by side."""
    title = " and ".join(str(document["name"]) for document in documents)
    write_atomically(path, render(documents, f"tvm-ios: {title}").encode())


def page_document(
    path: Path,
    repeat: int = 40,
    device: TimingDevice | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, Any]:
    """Return the document of an executable, which is profiled, or of a bundle that was run.

    ``shapes`` are those of the inputs of a program for a range.
    """
    if is_bundle(path):
        return bundle_document(path)
    return executable_document(path, repeat, device, shapes)
