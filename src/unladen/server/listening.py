"""Runs the server: sockets, TLS, signals, an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import signal
import socket
import ssl
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn

from unladen.errors import InvalidArgument
from unladen.server.app import make_app
from unladen.server.audit import Audit
from unladen.server.connection import protocol
from unladen.server.core import Core
from unladen.server.pages import is_loopback
from unladen.server.settings import Settings
from unladen.server.state import State
from unladen.server.ui.service import UiService

log = logging.getLogger("unladen.server")

KEEP_ALIVE_S: Final = 75
"""Seconds that a connection stays open for a later request. Clients keep theirs for less, so they
don't send into one that closes."""
ENDING_SHARE: Final = 0.6
"""The share of ``drain_s`` after which running requests get an error; the rest is for their
connections and for the workers."""
STARTED_S: Final = 0.005
"""Seconds between two looks whether uvicorn listens; it doesn't tell."""
_BACKLOG: Final = 2048
"""Connections that the system keeps until they are accepted."""
_SPARE_FILES: Final = 128
"""File descriptors for everything but connections."""
_MOST_FILES: Final = 65536
"""File descriptors that a process asks the system for at most."""
N_BEFORE_COLLECTION: Final = 700
"""New objects after which Python's garbage collector runs, as it does by default."""
SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP")
                       if hasattr(signal, name))
"""Signals that end the server."""


class Server(uvicorn.Server):
    """uvicorn's server; this module handles signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing with signals."""
        yield


def check(settings: Settings) -> None:
    """Raise :class:`InvalidArgument` where ``settings`` would open the server to everybody, or
    where a file can't be used."""
    if settings.socket is None and not is_loopback(settings.host) and not settings.needs_key:
        raise InvalidArgument(f"host {settings.host} lets other machines ask, and there is no key",
                              hint="give a key or a key file, or use host 127.0.0.1")
    tls(settings)


def tls(settings: Settings) -> ssl.SSLContext | None:
    """The TLS context; None for plain HTTP."""
    if settings.cert is None or settings.cert_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.cert, settings.cert_key, password=_no_password)
    except ssl.SSLError as error:
        raise InvalidArgument(f"{settings.cert} and {settings.cert_key} aren't a certificate and "
                              f"its key: {error.reason or error}",
                              hint="give PEM files; the key must belong to the certificate and "
                                   "have no password") from None
    except OSError as error:
        missing = settings.cert if not settings.cert.exists() else settings.cert_key
        raise InvalidArgument(f"{missing}: can't read this file: {error.strerror}",
                              hint="--cert and --cert-key name PEM files") from None
    return context


def _no_password() -> str:
    # Without this OpenSSL asks on the terminal.
    return ""


def bind(settings: Settings) -> list[socket.socket]:
    """The sockets that the server listens at. Raises :class:`InvalidArgument`."""
    if settings.socket is not None:
        return [_bind_path(settings.socket)]
    host, port = settings.host.strip("[]"), settings.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InvalidArgument(f"host {host!r} isn't an address of this machine: {error}",
                              hint="--host 127.0.0.1 is this machine alone, 0.0.0.0 all of its "
                                   "addresses") from None
    bound: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            # All addresses of a name get the same port, also where the system chooses it.
            port = bound[0].getsockname()[1] if bound else port
            bound.append(_bound(family, (address[0], port, *address[2:])))
    except OSError as error:
        for each in bound:
            each.close()
        raise _cannot_listen(error, host, port) from None
    return bound


def _bound(family: int, address: tuple[Any, ...]) -> socket.socket:
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        found.bind(address)
        found.listen(_BACKLOG)
    except OSError:
        found.close()
        raise
    return found


def _cannot_listen(error: OSError, host: str, port: int) -> InvalidArgument:
    if error.errno == errno.EADDRINUSE:
        return InvalidArgument(f"port {port} of {host} is in use",
                               hint="end the other program, or choose another port with --port; "
                                    "--port 0 takes a free one")
    if error.errno == errno.EACCES:
        return InvalidArgument(f"this user may not listen at port {port}",
                               hint="choose a port above 1023 with --port")
    return InvalidArgument(f"can't listen at {host} port {port}: {error.strerror}",
                           hint="--host must be an address of this machine")


def _bind_path(path: Path) -> socket.socket:
    if not hasattr(socket, "AF_UNIX"):
        raise InvalidArgument("this system has no Unix sockets", hint="use --host and --port")
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.exists() and stat.S_ISSOCK(path.stat().st_mode) and not _answers(path):
            path.unlink()  # a server that was killed left it
        mask = os.umask(0o177)
        try:
            found.bind(str(path))
        finally:
            os.umask(mask)
        found.listen(_BACKLOG)
    except OSError as error:
        found.close()
        raise InvalidArgument(f"{path}: can't make this socket: {error.strerror or error}", hint=(
            "another server uses it, or a file is there" if error.errno == errno.EADDRINUSE else
            "name a short path in a folder that you can write to")) from None
    return found


def _answers(path: Path) -> bool:
    if sys.platform == "win32":  # Python has no such sockets there
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0


def address_of(settings: Settings, bound: list[socket.socket]) -> str:
    """The address that clients ask, as "http://127.0.0.1:8080" or "unix:/path"."""
    if settings.socket is not None:
        return f"unix:{settings.socket}"
    scheme = "https" if settings.cert else "http"
    host = settings.host.strip("[]")
    if host in ("0.0.0.0", "::", ""):
        host = socket.gethostname()
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{bound[0].getsockname()[1]}"


def run(settings: Settings, bound: list[socket.socket],
        make_core: Callable[[], AbstractAsyncContextManager[Core]],
        ready: Callable[[Core], Awaitable[object]]) -> int:
    """Serve until a signal ends it; returns its number. See :func:`serve` for the parameters. A
    second signal ends the process at once."""
    async def until_signal() -> int:
        with _signals(settings) as ended:
            await serve(settings, bound, make_core, ready, ended)
            return ended.result() if ended.done() else signal.SIGTERM

    _collect_garbage_soon()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(until_signal())
    finally:
        for each in bound:
            each.close()
        _unlink(settings)


def _collect_garbage_soon() -> None:
    """Let Python collect what requests leave soon after it is garbage: a process that starts and
    ends lets it wait, and here it would pile up. What the imports made stays for good, so that
    nobody looks at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(N_BEFORE_COLLECTION)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where it is installed."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = uvicorn.Config(
        _nothing, log_config=None).get_loop_factory()
    return factory


async def _nothing(*_: object) -> None:
    pass


async def serve(settings: Settings, bound: list[socket.socket],
                make_core: Callable[[], AbstractAsyncContextManager[Core]],
                ready: Callable[[Core], Awaitable[object]], ended: asyncio.Future[Any]) -> None:
    """Serve at ``bound`` until ``ended`` is done; running requests then have ``drain_s``.

    * ``settings``: of the server. ``bound``: from :func:`bind`.
    * ``make_core``: makes the models.
    * ``ready``: runs once requests are answered, and is cancelled at the end.
    """
    state = State(settings)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    audit = Audit(settings.audit) if settings.audit is not None else None
    try:
        async with make_core() as core, UiService(core, settings) as ui:
            app = make_app(core, settings, audit=audit, state=state, ui=ui)
            server = Server(_config(app, settings))
            serving = asyncio.ensure_future(server.serve(bound))
            watching = asyncio.ensure_future(state.keys.watch())
            try:
                async with _after_start(server, core, ready):
                    await asyncio.wait((serving, ended), return_when=asyncio.FIRST_COMPLETED)
                    server.should_exit = True
                    ui.feed.end()  # a page that only watches keeps nobody waiting
                    await _drain(serving, state, settings)
            finally:
                state.closing.set()
                watching.cancel()
                server.should_exit = server.force_exit = True
                await serving
    finally:
        if audit is not None:
            audit.close()


def _config(app: Any, settings: Settings) -> uvicorn.Config:
    config = uvicorn.Config(
        app, http=protocol(settings), ws="none", lifespan="off", log_config=None,
        access_log=False, proxy_headers=False, server_header=False, interface="asgi3",
        timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=max(1, round(settings.drain_s)),
        h11_max_incomplete_event_size=settings.max_header_bytes)
    config.load()
    config.ssl = tls(settings)
    return config


@contextlib.asynccontextmanager
async def _after_start(server: Server, core: Core, ready: Callable[[Core], Awaitable[object]]
                       ) -> AsyncIterator[None]:
    async def start() -> None:
        while not server.started:
            await asyncio.sleep(STARTED_S)
        await ready(core)

    starting = asyncio.ensure_future(start())
    try:
        yield
    finally:
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting


async def _drain(serving: asyncio.Future[None], state: State, settings: Settings) -> None:
    """Give running requests their time, then end them with an error."""
    await asyncio.wait((serving,), timeout=settings.drain_s * ENDING_SHARE)
    state.closing.set()
    await serving


@contextlib.contextmanager
def _signals(settings: Settings) -> Iterator[asyncio.Future[int]]:
    """A future that has the number of the signal that ended the server."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def end(number: int, frame: FrameType | None) -> None:
        if ended.done():
            _unlink(settings)
            os._exit(128 + number)
        loop.call_soon_threadsafe(_resolve, ended, number)

    before: dict[int, Any] = {}
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, end)
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _resolve(ended: asyncio.Future[int], number: int) -> None:
    if not ended.done():
        ended.set_result(number)


def _unlink(settings: Settings) -> None:
    if settings.socket is not None:
        with contextlib.suppress(FileNotFoundError):
            settings.socket.unlink()


def most_connections(settings: Settings) -> int:
    """The connections that the system lets this process have, at most ``max_connections``. Asks
    the system for more file descriptors where it has too few."""
    if sys.platform == "win32":  # it has no such limit
        return settings.max_connections
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_connections + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
        soft = max(soft, min(wanted, most))
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return settings.max_connections
    return max(1, min(settings.max_connections, soft - _SPARE_FILES))
