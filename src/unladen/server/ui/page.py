"""Sends the page: ``index.html`` at ``/``, and hashed files below ``/assets/``."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from starlette.responses import Response

import unladen
from unladen.server.endpoint import Dialect, Endpoint, Exchange
from unladen.server.faults import Fault

PAGE_FOLDER: Final = Path(unladen.__file__).parent / "ui"
"""The folder of the page's built files."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
"""What the page may load and do: nothing of other hosts, no markup made of texts."""
SECURITY: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer"}
"""The headers of every file of the page."""
_NAME: Final = re.compile(r"(?=.{1,200}$)(?:[\w-][\w.-]*/)*[\w-][\w.-]*", re.ASCII)
"""Names below ``assets``: not too long for a disk, no empty part, none that begins with a dot."""
_TYPES: Final[Mapping[str, str]] = {
    ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css",
    ".html": "text/html", ".svg": "image/svg+xml", ".woff2": "font/woff2",
    ".json": "application/json", ".webmanifest": "application/manifest+json",
    ".png": "image/png", ".ico": "image/x-icon", ".txt": "text/plain"}
"""Media types, which some systems' tables have wrong."""


def dialect(folder: Path = PAGE_FOLDER) -> Dialect:
    """The page's files in ``folder`` as routes, which need no key."""

    async def index(exchange: Exchange) -> Response:
        """The page itself."""
        return _file(folder, "index.html", exchange, "no-cache",
                     Fault("not_found", "this server has no page",
                           hint="install unladen again: src/unladen/ui lacks index.html; "
                                "/openapi.json lists the other routes"))

    async def asset(exchange: Exchange) -> Response:
        """A file of the page, whose name changes with its content."""
        name = exchange.request.path_params["name"]
        missing = Fault("not_found", f"the page has no file {name[:100]!r}",
                        hint="load the page again: another version of the server may run now")
        if _NAME.fullmatch(name) is None:
            raise missing
        return _file(folder, f"assets/{name}", exchange, "public, max-age=31536000, immutable",
                     missing)

    return Dialect("page", [
        Endpoint("GET", "/", index, "the page", scope="open", media=("text/html",)),
        Endpoint("GET", "/assets/{name:path}", asset, "a file of the page", scope="open",
                 media=("*/*",))],
        ("/assets/",), error)


def _file(folder: Path, name: str, exchange: Exchange, caching: str, missing: Fault) -> Response:
    """The file ``name`` of ``folder``, packed where the browser takes that and the build made it.
    Raises ``missing`` where there is none."""
    path = folder / name
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    headers = {**SECURITY, "Cache-Control": caching, "Vary": "Accept-Encoding"}
    if _takes_gzip(exchange.request.headers.get("accept-encoding", "")):
        try:
            return Response(Path(f"{path}.gz").read_bytes(), media_type=kind,
                            headers={**headers, "Content-Encoding": "gzip"})
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            pass  # it wouldn't be smaller
    try:
        return Response(path.read_bytes(), media_type=kind, headers=headers)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise missing from None


def _takes_gzip(accepted: str) -> bool:
    """Whether a browser that sent the header Accept-Encoding ``accepted`` takes gzip."""
    for each in accepted.lower().split(","):
        name, _, weight = each.partition(";")
        if name.strip() in ("gzip", "*"):
            return re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight) is None
    return False


def error(fault: Fault) -> tuple[int, Any, Mapping[str, str]]:
    """A fault in the words of ``/ui/api``."""
    return fault.status, {"error": {"code": fault.kind, "message": fault.message,
                                    "hint": fault.hint, "param": fault.param}}, {}
