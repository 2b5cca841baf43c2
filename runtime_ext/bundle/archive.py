"""Pack bundles for copying, without our code, which one copy beside several of them serves."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Mapping
from lzma import LZMAError
from pathlib import Path
from typing import Any

from runtime_ext.bundle.contents import ABOUT, FORMAT, PACKAGES, VERSION, BundleError
from tvm_ios.files.json_text import json_object

SUFFIX = ".tar.xz"


def pack_bundle(bundle: Path, archive: Path) -> None:
    """Pack a bundle without our code, which its ``run.py`` then finds by ``PYTHONPATH``."""
    shutil.rmtree(bundle / PACKAGES)
    about = json_object((bundle / ABOUT).read_bytes())
    files = about["files"].items()
    about["files"] = {name: sha for name, sha in files if not name.startswith(f"{PACKAGES}/")}
    (bundle / ABOUT).write_text(json.dumps(about, indent=1))
    pack(archive, {bundle.name: bundle})


def pack(archive: Path, content: Mapping[str, Path]) -> None:
    """Write files and folders into an archive, which gets its final name when complete."""
    unfinished = archive.with_name(f"{archive.name}.new")
    with tarfile.open(unfinished, "w:xz", preset=9) as tar:
        for name, path in content.items():
            tar.add(path, name)
    os.replace(unfinished, archive)


def is_current(archive: Path) -> bool:
    """Return whether this version reads a packed bundle; raise BundleError if it is damaged."""
    try:
        with tarfile.open(archive) as tar:
            # Reads to the end, so that what is cut off shows.
            tar.getmembers()
            content = tar.extractfile(f"{archive.name.removesuffix(SUFFIX)}/{ABOUT}")
            about: dict[str, Any] = json_object(b"" if content is None else content.read())
    except (OSError, EOFError, LZMAError, tarfile.TarError, KeyError, ValueError) as error:
        raise BundleError(f"{archive.name} is damaged ({error}): make it again") from error
    return (about.get("format"), about.get("version")) == (FORMAT, VERSION)
