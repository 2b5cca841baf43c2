"""Axes to draw into, and the picture files."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError
from tvm_ios.files.atomic import require_writable, write_atomically


def require_picture(path: Path) -> None:
    """Require that a picture can be drawn and written to a path, before long work.

    Raise UserError if the name does not end in .svg or .png, or Matplotlib is not installed, and
    OSError if the file cannot be written.
    """
    if path.suffix not in (".svg", ".png"):
        raise UserError(f"{path} cannot be drawn: its name must end in .svg or .png")
    require_writable(path)
    pyplot()


def save_picture(ax: Any, path: Path) -> None:
    """Write the figure of some axes to a file, atomically."""
    drawn = io.BytesIO()
    # Text stays text: it can be found, and takes less room than outlines of letters. Names of
    # clips are drawn by a salt, so that equal pictures are equal files.
    with pyplot().rc_context({"svg.fonttype": "none", "svg.hashsalt": "tvm-ios"}):
        undated = {"Date": None} if path.suffix == ".svg" else None
        ax.figure.savefig(drawn, format=path.suffix[1:], dpi=150, metadata=undated)
    content = drawn.getvalue()
    if path.suffix == ".svg":
        # A hundredth of a point is seen by nobody, and a third of the bytes.
        content = re.sub(rb"\d+\.\d{3,}", lambda match: b"%.2f" % float(match[0]), content)
    write_atomically(path, content)


def axes(ax: Any, size: tuple[float, float]) -> Any:
    """Return the given axes, or those of a new figure of a size in inches.

    Raise UserError if Matplotlib is not installed.
    """
    if ax is not None:
        return ax
    return pyplot().subplots(figsize=size, layout="constrained")[1]


def pyplot() -> Any:
    """Return Matplotlib's ``pyplot``; raises as :func:`axes`."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise UserError("pictures need matplotlib: pip install 'tvm-ios[notebook]'") from error
    return pyplot
