"""What the packages log, on stderr: ``--verbose``."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

from rich.console import Console

#: Whose loggers are told of; they log to Python's ``logging`` under the names of their modules.
_PACKAGES = ("tvm_ios", "runtime_ext", "relay_passes")


@cache
def stderr_console() -> Console:
    """Where lines and progress bars go, so that neither is written over the other."""
    return Console(stderr=True)


@contextmanager
def told_on_stderr(verbosity: object) -> Generator[None]:
    """While a command runs, show its log: with 1 what is done, from 2 on each measurement too."""
    if not verbosity:
        yield
        return
    from rich.logging import RichHandler

    handler = RichHandler(console=stderr_console(), show_path=False, log_time_format="%X")
    level = logging.INFO if verbosity == 1 else logging.DEBUG
    loggers = [logging.getLogger(package) for package in _PACKAGES]
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
