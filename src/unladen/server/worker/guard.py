"""Lets a worker end with its server, whatever ends the server."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""The number of Linux's request for a signal at the parent's death."""
ORPHANED = 3
"""The exit status of a worker whose server is gone."""


def die_with_parent(parent: int) -> None:
    """End this process when the process ``parent``, which started it, ends. On Linux the kernel
    does that, even in the middle of a native step; elsewhere, and as well, the thread that reads
    the connection does it.

    Signals for the whole group are ignored: the server gets them too and ends its workers once
    their requests are done.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if hasattr(os, "getppid") and sys.platform != "win32" and os.getppid() != parent:
        os._exit(ORPHANED)  # it ended before the kernel was asked
