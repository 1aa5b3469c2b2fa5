"""Asks a running ``unladen serve``, and says what is wrong where it doesn't answer."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import ssl
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Final, NoReturn
from urllib.parse import quote, urlsplit

import typer

from unladen.errors import InvalidArgument, UnladenError

ADDRESS_VARIABLE: Final = "UNLADEN_SERVER"
"""The environment variable that says where the server is."""
KEY_VARIABLE: Final = "UNLADEN_KEY"
"""The environment variable that has the server's key. Other users can't see it, as they can see the
options of a process."""
USUAL: Final = "http://127.0.0.1:8080"
"""Where ``unladen serve`` listens unless it is told otherwise."""
PATIENCE_S: Final = 10.0
"""Seconds to wait for a connection, and for an answer that takes no work."""
LONGEST: Final = 64 << 20
"""Bytes of an answer at most."""
_PORTS: Final = {"http": 8080, "https": 443}
"""The port of an address that names none, by its scheme."""
_HOST: Final = re.compile(r"[\w.:%-]+")
"""A name or an address of a machine."""
_SHOWN: Final = 200
"""Characters of an answer that isn't understood that an error quotes at most."""

Server = Annotated[str | None, typer.Option(
    "--server", metavar="ADDRESS", show_default=f"${ADDRESS_VARIABLE}, else {USUAL}",
    help="Where unladen serve listens: HOST:PORT, an http or https address, or unix:PATH.")]
Key = Annotated[str | None, typer.Option(
    "--key", show_default=f"${KEY_VARIABLE}", help="The server's key, if it needs one.")]


class NoServer(UnladenError):
    """No server answers, or another program does."""


class Refused(UnladenError):
    """The server's answer is an error. ``status``: its HTTP status."""

    def __init__(self, message: str, *, status: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class _UnixConnection(http.client.HTTPConnection):
    """A connection to the Unix socket ``path``."""

    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """See :class:`http.client.HTTPConnection`."""
        if sys.platform == "win32":
            raise OSError("this system has no Unix sockets")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Running:
    """The server at ``address``, asked with ``key``; None: those that the environment names, else
    the usual address and no key. Raises :class:`InvalidArgument` for what is no address."""

    def __init__(self, address: str | None, key: str | None) -> None:
        given = address if address is not None else os.environ.get(ADDRESS_VARIABLE) or USUAL
        self._scheme, self._host, self._port, self._base = _parsed(given.strip())
        self.address = given.strip() if self._scheme == "unix" else (
            f"{self._scheme}://{f'[{self._host}]' if ':' in self._host else self._host}"
            f":{self._port}{self._base}")
        self._key = key if key is not None else os.environ.get(KEY_VARIABLE, "")

    def get(self, path: str) -> Any:
        """The JSON at ``path``. Raises :class:`NoServer` and :class:`Refused`."""
        return self._asked("GET", path, None, PATIENCE_S)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON that answers ``body``, however long that takes. Raises as :meth:`get`."""
        return self._asked("POST", path, body, None)

    def _asked(self, method: str, path: str, body: Mapping[str, Any] | None, patience: float | None
               ) -> Any:
        connection = self._connection()
        headers = {"Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        data = None
        if body is not None:
            headers["Content-Type"], data = "application/json", json.dumps(body).encode()
        try:
            connection.connect()
            connection.sock.settimeout(patience)
            connection.request(method, quote(self._base + path, safe="/?=&%"), data, headers)
            reply = connection.getresponse()
            text, status = reply.read(LONGEST), reply.status
        except (OSError, http.client.HTTPException) as error:
            self._absent(error)
        except (UnicodeError, ValueError) as error:
            raise InvalidArgument(f"the key can't be sent: {error}",
                                  hint="give it as the server showed it") from None
        finally:
            connection.close()
        return self._understood(status, text)

    def _connection(self) -> http.client.HTTPConnection:
        if self._scheme == "unix":
            return _UnixConnection(self._host, PATIENCE_S)
        if self._scheme == "https":
            return http.client.HTTPSConnection(self._host, self._port, timeout=PATIENCE_S)
        return http.client.HTTPConnection(self._host, self._port, timeout=PATIENCE_S)

    def _absent(self, error: Exception) -> NoReturn:
        if isinstance(error, ssl.SSLCertVerificationError):
            raise NoServer(f"the certificate of {self.address} isn't trusted: "
                           f"{error.verify_message}",
                           hint="set SSL_CERT_FILE to the file with its certificate") from None
        if isinstance(error, ssl.SSLError):
            raise NoServer(f"{self.address} doesn't speak TLS",
                           hint="an http address may be meant") from None
        if isinstance(error, http.client.HTTPException):
            self._stranger()
        why = ("nobody answers in time" if isinstance(error, TimeoutError) else
               getattr(error, "strerror", None) or str(error) or type(error).__name__)
        raise NoServer(f"no server answers at {self.address}: {why}", hint=(
            "unladen serve MODEL starts one; --server ADDRESS or "
            f"{ADDRESS_VARIABLE} names one that listens elsewhere")) from None

    def _stranger(self) -> NoReturn:
        raise NoServer(f"what answers at {self.address} isn't unladen serve",
                       hint=f"--server ADDRESS or {ADDRESS_VARIABLE} names the right one") from None

    def _understood(self, status: int, text: bytes) -> Any:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            self._stranger()
        if status == 200:
            return found
        if status == 401:
            raise Refused(f"the server at {self.address} " + (
                "doesn't know this key" if self._key else "needs a key"), status=status,
                hint=f"set {KEY_VARIABLE}, or give --key KEY")
        if status in (404, 405) and "error" not in (found if isinstance(found, dict) else ()):
            self._stranger()
        raise Refused(f"the server at {self.address} refuses: {_message(found)}", status=status,
                      hint=_hint(found))


def _message(found: Any) -> str:
    """What an answer with an error says."""
    error = found.get("error") if isinstance(found, dict) else None
    text = error.get("message") if isinstance(error, dict) else error
    words = text if isinstance(text, str) else json.dumps(found)
    return " ".join(words.partition(" (hint: ")[0].split())[:_SHOWN]


def _hint(found: Any) -> str:
    """The hint in an answer with an error."""
    error = found.get("error") if isinstance(found, dict) else None
    text = error.get("message") if isinstance(error, dict) else error
    return text.partition(" (hint: ")[2].removesuffix(")") if isinstance(text, str) else ""


def _parsed(text: str) -> tuple[str, str, int, str]:
    """Scheme, host or path, port, and what stands before every route."""
    if text.startswith("unix:"):
        path = os.path.expanduser(text.removeprefix("unix:").removeprefix("//"))
        if path and "\0" not in path:
            return "unix", path, 0, ""
    try:
        if text.startswith("unix:") or not text.isprintable():
            raise ValueError("a socket without a path, or no text")
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
        host = parts.hostname or ""
        if parts.scheme in _PORTS and _HOST.fullmatch(host) and not parts.query:
            # What serve shows for itself is an address of this machine, too.
            host = "127.0.0.1" if host == "0.0.0.0" else host
            usual = 80 if "://" in text and parts.scheme == "http" else _PORTS[parts.scheme]
            return (parts.scheme, host, usual if port is None else port,
                    parts.path.rstrip("/").removesuffix("/v1"))
    except ValueError:
        pass  # it is malformed, as the error says
    raise InvalidArgument(f"--server must be HOST:PORT, an http or https address, or unix:PATH, "
                          f"got {text[:_SHOWN]!r}", hint=f"for example --server {USUAL}")
