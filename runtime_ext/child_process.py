"""Processes that measure for another one, and end with it however it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

#: From <linux/prctl.h>.
_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Be killed when the parent is, or measure on for nobody.

    Parameters
    ----------
    parent
        Its process number, as it has told it: it may be gone already.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the process that wanted these measurements is gone")
