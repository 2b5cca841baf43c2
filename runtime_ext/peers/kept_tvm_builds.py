"""A cache of TVM's own builds: compiling one may take longer than a search."""

# TVM's nodes get their attributes at run time.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import hashlib
import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst

from runtime_ext.kernels.artefact import Artefact, ArtefactCache, kernel_key
from runtime_ext.peers.tvm_build import compile_tvm_build
from tvm_ios.files.atomic import write_atomically

_LOGGER = logging.getLogger(__name__)

#: The most bytes of a folder: builds contain weights. The least recently used are removed.
_MOST_BYTES = 1 << 30
#: The part of a disk's free space that one may take.
_PART_OF_FREE = 0.25


def kept_tvm_build(module: tvm.IRModule, target: Any, path: Path, folder: Path) -> None:
    """Write TVM's own build of a module, compiled or, for an equal module, copied from the cache.

    See :func:`~runtime_ext.peers.tvm_build.compile_tvm_build`. Builds are kept in ``folder``: 1 GiB
    of them, and none that would fill a disk. Raise UserError if the disk has too little room, or
    the folder cannot be written.
    """
    cache = ArtefactCache(folder, "so")
    key = kernel_key(f"TVM's own build of {_digest(module)}", str(target))
    if cache.find(key) is not None:
        # Another process may have removed it since.
        with suppress(FileNotFoundError):
            os.utime(cache.code_file(key))
            write_atomically(path, cache.code_file(key).read_bytes())
            _LOGGER.info("TVM's own build: from the cache")
            return
    compile_tvm_build(module, target, path)
    _keep(cache, key, path)


def _digest(module: tvm.IRModule) -> str:
    """Return a digest of a module that includes the bytes of its constants.

    TVM's hash is the same for some different constants.
    """
    digest = hashlib.sha256(f"{tvm_ffi.structural_hash(module):x}".encode())

    def visit(expression: Any) -> None:
        if isinstance(expression, GenericConst):
            digest.update(expression.value.numpy().tobytes())

    for function in module.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return digest.hexdigest()


def _keep(cache: ArtefactCache, key: str, path: Path) -> None:
    """Add a build to the cache and remove the oldest ones; failures are only logged."""
    size = path.stat().st_size
    if size > min(_MOST_BYTES, _PART_OF_FREE * shutil.disk_usage(cache.folder).free):
        return
    try:
        cache.add(Artefact(key, (), ()), path.read_bytes())
        _remove_oldest(cache)
    except OSError as error:
        _LOGGER.info("TVM's own build was not kept: %s", error)


def _remove_oldest(cache: ArtefactCache) -> None:
    files = [(file.stat(), file) for file in cache.folder.glob("*.so")]
    kept_bytes = 0
    for status, file in sorted(files, key=lambda entry: -entry[0].st_mtime_ns):
        kept_bytes += status.st_size
        if kept_bytes > _MOST_BYTES:
            # The description first: a library without one does not count.
            file.with_suffix(".json").unlink(missing_ok=True)
            file.unlink(missing_ok=True)
