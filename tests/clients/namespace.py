"""A network of a test's own, in which there is nothing but the loopback device."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator

import pytest

_UP = "ip link set lo up && echo up && exec sleep 86400"


@contextlib.contextmanager
def loopback_alone() -> Iterator[list[str]]:
    """A command that starts what follows it where nothing beyond this machine can be reached.
    Skips where the system lets nobody do that."""
    for program in ("unshare", "nsenter", "ip"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}, to start agents without a network")
    for way in ([], ["--user", "--map-root-user"]):
        holder = subprocess.Popen(["unshare", *way, "--net", "sh", "-c", _UP],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert holder.stdout is not None and holder.stderr is not None
            if holder.stdout.readline().strip() == "up":
                user = ["--user", "--preserve-credentials"] if way else []
                yield ["nsenter", "--target", str(holder.pid), "--net", *user]
                return
            why = holder.stderr.read().strip()
        finally:
            holder.kill()
            holder.communicate()
    pytest.skip(f"needs the right to make a network namespace: {why}")
