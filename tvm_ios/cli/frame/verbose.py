"""Show the packages' log on stderr: ``--verbose``."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

from rich.console import Console

#: Packages whose log is shown; their modules log to Python's ``logging`` under their names.
_PACKAGES = ("tvm_ios", "runtime_ext", "relay_passes")
#: The logger that gets Python's warnings.
_WARNINGS = "py.warnings"


@cache
def stderr_console() -> Console:
    """Return the console of stderr, for log lines and progress bars."""
    return Console(stderr=True)


@contextmanager
def told_on_stderr(verbosity: object) -> Generator[None]:
    """Show the log while a command runs: 1 shows each step, 2 and more each measurement too.

    Python's own warnings are shown from 2 on; what other packages log is never shown.
    """
    logging.captureWarnings(True)
    # Without any handler, Python would write log messages of warnings to stderr.
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
