"""What the packages log, on stderr: ``--verbose``."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

from rich.console import Console

#: Whose loggers are told of; they log to Python's ``logging`` under the names of their modules.
_PACKAGES = ("tvm_ios", "runtime_ext", "relay_passes")
#: Where Python's ``logging`` has warnings.
_WARNINGS = "py.warnings"


@cache
def stderr_console() -> Console:
    """Where lines and progress bars go, so that neither is written over the other."""
    return Console(stderr=True)


@contextmanager
def told_on_stderr(verbosity: object) -> Generator[None]:
    """While a command runs, show its log: with 1 what is done, from 2 on each measurement too.

    Warnings of Python's packages, of which no user can do anything, are part of the second; those
    that they log are not shown.
    """
    logging.captureWarnings(True)
    # Where no logger has a handler, Python writes warnings to stderr.
    root, silent = logging.getLogger(), logging.NullHandler()
    root.addHandler(silent)
    try:
        with _shown(verbosity):
            yield
    finally:
        root.removeHandler(silent)
        logging.captureWarnings(False)


@contextmanager
def _shown(verbosity: object) -> Generator[None]:
    if not verbosity:
        yield
        return
    from rich.logging import RichHandler

    handler = RichHandler(console=stderr_console(), show_path=False, log_time_format="%X")
    level = logging.INFO if verbosity == 1 else logging.DEBUG
    names = _PACKAGES if verbosity == 1 else (*_PACKAGES, _WARNINGS)
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, earlier in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(earlier)
