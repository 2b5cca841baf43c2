"""How Sphinx makes the documentation site: ``make docs``."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tvm_ios import __version__  # noqa: E402

project = "tvm-ios"
release = version = __version__
author = "the tvm-ios developers"
copyright = f"{author}, Apache-2.0"

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "make", "schedule_texts"]
myst_heading_anchors = 4
# The tests run the notebooks; `make site` does so to show what they print.
nb_execution_mode = "off"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_in_temp = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
html_theme = "furo"
html_title = f"tvm-ios {version}"
html_copy_source = False

#: Where documents of other folders are copied to: Sphinx reads only what lies beside this file.
BROUGHT = ROOT / "docs" / "brought"
DOCUMENTS = [
    *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
    *sorted((ROOT / "tutorials").glob("*.ipynb")),
]


def brought(document: Path) -> Path:
    """Where a document of another folder is copied to."""
    return BROUGHT / "_".join(document.relative_to(ROOT).parts)


ORIGINALS = {brought(document): document for document in DOCUMENTS}


def setup(app: Any) -> None:
    """Bring documents of other folders, and mend the links to them and in them."""
    app.connect("builder-inited", lambda _: bring())
    app.connect("source-read", link)


def bring() -> None:
    """Copy the documents of other folders; a notebook that was run since stays as it is."""
    BROUGHT.mkdir(exist_ok=True)
    for copy, document in ORIGINALS.items():
        if not copy.exists() or copy.stat().st_mtime < document.stat().st_mtime:
            shutil.copyfile(document, copy)


def link(app: Any, name: str, content: list[str]) -> None:
    """Make links between files links between pages."""
    page = Path(app.env.doc2path(name))
    folder = ORIGINALS.get(page, page).parent

    def linked(match: re.Match[str]) -> str:
        file = (folder / match[1]).resolve()
        if not file.exists():
            return match[0]
        target = brought(file) if file in DOCUMENTS else file
        return f"]({os.path.relpath(target, page.parent)}"

    content[0] = re.sub(r"\]\((?!\w+:)([^)#\s]+)", linked, content[0])
