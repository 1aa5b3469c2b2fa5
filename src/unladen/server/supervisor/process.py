"""A worker process as the server sees it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

from unladen.server.ipc import READ_BYTES, BrokenFrame, Frames, Message, frame

log = logging.getLogger("unladen.server")

ENDING_SECONDS: Final = 0.5
"""Seconds between the end of what a process sends and its own end; one that takes longer is ended.
Clients learn within a second that their worker is gone."""


class Worker:
    """A process that was started by :meth:`start`. :attr:`gone` is done once it has ended and all
    that it sent was handled; its result is why the process ended, as a person reads it."""

    def __init__(self, process: asyncio.subprocess.Process, handle: Callable[[Message], None]
                 ) -> None:
        self._process, self._handle = process, handle
        self._why = ""
        self.gone: asyncio.Task[str] = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, first: Message, handle: Callable[[Message], None],
                    kept: int | None = None) -> Worker:
        """A new process that gets the message ``first``. ``handle`` is called with each message
        that comes from it. ``kept``: the file descriptor for conversations; None: none are kept."""
        # Without -P, modules in the folder where the server was started would be found first.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "unladen.server.worker", str(os.getpid()),
            *(() if kept is None else (str(kept),)), pass_fds=() if kept is None else (kept,),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=READ_BYTES)
        worker = cls(process, handle)
        worker.send(first)
        return worker

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def send(self, *messages: Message) -> None:
        """Send ``messages`` in one frame. Where the process has ended, nothing happens:
        :attr:`gone` tells that."""
        pipe = self._process.stdin
        assert pipe is not None
        if not pipe.is_closing():
            pipe.write(frame(messages))

    def kill(self, why: str) -> None:
        """End the process now, because of ``why``."""
        if self._process.returncode is None:
            self._why = self._why or why
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                if sys.platform == "win32":
                    self._process.kill()
                else:  # asyncio's own way may take the exit status from where asyncio waits for it
                    os.kill(self._process.pid, signal.SIGKILL)

    async def _read(self) -> str:
        pipe, frames = self._process.stdout, Frames()
        assert pipe is not None
        try:
            while data := await pipe.read(READ_BYTES):
                for message in frames.feed(data):
                    self._handle(message)
            with contextlib.suppress(TimeoutError):  # then it only closed the connection
                async with asyncio.timeout(ENDING_SECONDS):
                    await self._process.wait()
        except (BrokenFrame, OSError) as error:
            self.kill(f"it sent something else than frames: {error}")
        except Exception as error:
            log.error("a message of a worker can't be handled", exc_info=error)
            self.kill(f"one of its messages can't be handled: {error}")
        finally:
            self.kill("it closed the connection")
        status = await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        if status == -9 and self._why:
            return self._why
        return f"it was ended by signal {-status}" if status < 0 else f"it ended with {status}"
