"""An application on a real port, in a thread, for real clients."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import uvicorn


@contextlib.contextmanager
def live(app: Any) -> Iterator[str]:
    """Serve ``app`` on a free port of this machine; gives its address, as "http://127.0.0.1:1"."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        end = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive() and time.monotonic() < end
            time.sleep(0.01)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
        bound.close()
