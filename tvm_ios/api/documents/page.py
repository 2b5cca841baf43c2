"""Pages that show executables, and what bundles found on other machines."""

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
    """Find out before long work whether a page can be written here.

    Raises
    ------
    UserError
        If its name does not end in ``.html``, by which browsers know it.
    OSError
        If it could not be written.
    """
    if path.suffix not in (".html", ".htm"):
        raise UserError(f"{path} is no name of a page: it must end in .html")
    require_writable(path)


def write_page(documents: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the page of one document, or of two side by side.

    Raises
    ------
    UserError
        As :func:`tvm_ios.report.page.render`.
    OSError
        If the file cannot be written.
    """
    title = " and ".join(str(document["name"]) for document in documents)
    write_atomically(path, render(documents, f"tvm-ios: {title}").encode())


def page_document(
    path: Path, repeat: int = 40, device: TimingDevice | None = None
) -> dict[str, Any]:
    """What a page shows of an executable, or of a bundle that was run.

    Parameters
    ----------
    path
        What ``tvm-ios optimize`` or ``tvm-ios bundle`` wrote.
    repeat, device
        As of :func:`tvm_ios.api.documents.executable.executable_document`.

    Raises
    ------
    UserError
        As of that function, or as :func:`tvm_ios.api.documents.bundle.bundle_document`.
    """
    return bundle_document(path) if is_bundle(path) else executable_document(path, repeat, device)
