"""Which web pages may ask: checks of Host, Origin and what browsers add to requests.

A page of another site can make a browser send requests to this machine. With a name that it lets
point to this machine (DNS rebinding) it could even read the answers; the check of Host stops that.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from typing import Final

from starlette.datastructures import Headers

from unladen.server.faults import Fault

LOCAL_NAMES: Final = frozenset({"localhost", "host.docker.internal", "host.containers.internal"})
"""Names that lead to this machine only; nobody can register them."""
_HOST: Final = re.compile(r"(\[[0-9a-f:.%]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?")
_ORIGIN: Final = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/\s?#@]+")
_READS: Final = frozenset({"GET", "HEAD"})
_BODIES: Final = frozenset({"POST", "PUT", "PATCH"})
_FOREIGN: Final = frozenset({"cross-site", "same-site"})
"""Values of Sec-Fetch-Site with which another page asks; pages of another port are same-site."""
PREFLIGHT_S: Final = 600
"""Seconds that a browser may remember what it was allowed."""
SHOWN_HEADERS: Final = "x-request-id, request-id, retry-after"
"""Headers of answers that pages of other origins can read."""


class Hosts:
    """The names by which the server may be called.

    * ``bound``: the address that it listens at; None: a Unix socket, which no browser reaches.
    * ``more``: names that the operator gave.
    """

    def __init__(self, bound: str | None, more: Iterable[str]) -> None:
        self._is_checked = bound is not None
        self._is_local = bound is not None and is_loopback(bound)
        own = socket.gethostname().lower()
        self._names = {name.lower().rstrip(".") for name in more} | LOCAL_NAMES
        if not self._is_local:
            self._names |= {own, f"{own}.local", (bound or "").lower()}

    def check(self, headers: Headers) -> None:
        """Raise a ``Fault`` if the request is for another host."""
        given = headers.getlist("host")
        # Browsers always send one Host. Old programs that send none are no danger.
        if not self._is_checked or not given:
            return
        if len(given) > 1 or not self._is_own(given[0].lower()):
            raise Fault("forbidden", f"this server isn't called {given[0][:100]!r}",
                        hint="ask by the address that it shows at its start; the operator can "
                             "allow other names (--allow-host)")

    def _is_own(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found[1].strip("[]").rstrip(".")
        if name in self._names or name.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        # An address can't be made to point elsewhere, as a name can.
        return address.is_loopback or not self._is_local


class Origins:
    """The pages that may ask: those of ``allowed`` origins ("https://chat.example",
    "http://localhost:*", "*") and the server's own."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._all = "*" in allowed
        self._allowed = [re.compile(re.escape(each.lower()).replace(r":\*", r":[0-9]+")
                                    .replace(r"\*", r"[^/:@]*")) for each in allowed]
        self.any_named = bool(allowed)

    def named(self, origin: str) -> bool:
        """Whether the operator allowed ``origin``."""
        return self._all or any(each.fullmatch(origin.lower()) for each in self._allowed)

    def check(self, method: str, headers: Headers) -> None:
        """Raise a ``Fault`` for a request of a page that may not ask."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None:
            if not self.named(origin) and not _same(origin, headers.get("host", "")):
                raise Fault("forbidden", f"pages of {origin[:100]} may not ask this server",
                            hint=f"the operator can allow them: --allow-origin {origin[:100]}")
        elif site in _FOREIGN and not (
                method in _READS and headers.get("sec-fetch-mode") == "navigate"):
            raise Fault("forbidden", "pages of other sites may not ask this server",
                        hint="the operator can allow them: --allow-origin ORIGIN")
        # A form or a request with text/plain is sent without asking first, so it does no work.
        if (origin is not None or site in _FOREIGN) and method in _BODIES and not is_json(
                headers.get("content-type", "")):
            raise Fault("forbidden", "a web page must send JSON as application/json",
                        hint='add the header "Content-Type: application/json"')

    def answer_headers(self, origin: str | None) -> dict[str, str]:
        """The headers that let a page of ``origin`` read the answer."""
        more = {"Vary": "Origin"} if self.any_named else {}
        if origin is not None and self.named(origin):
            more |= {"Access-Control-Allow-Origin": origin,
                     "Access-Control-Expose-Headers": SHOWN_HEADERS}
        return more

    def preflight_headers(self, headers: Headers) -> dict[str, str]:
        """The headers that let a page send what it asks for beforehand. Raises a ``Fault`` for a
        page that may not ask."""
        origin = headers.get("origin", "")
        if not self.named(origin) and not _same(origin, headers.get("host", "")):
            raise Fault("forbidden", f"pages of {origin[:100]} may not ask this server",
                        hint=f"the operator can allow them: --allow-origin {origin[:100]}")
        asked = headers.get("access-control-request-headers", "")
        names = [name.strip() for name in asked.split(",")]
        allowed = ", ".join(name for name in names if re.fullmatch(r"[A-Za-z0-9-]{1,64}", name))
        more = {"Access-Control-Allow-Methods": "GET, HEAD, POST, PATCH, DELETE",
                "Access-Control-Allow-Headers": allowed or "content-type, authorization",
                "Access-Control-Max-Age": str(PREFLIGHT_S)}
        if headers.get("access-control-request-private-network") == "true":
            more["Access-Control-Allow-Private-Network"] = "true"
        return {**self.answer_headers(origin), **more, "Vary": "Origin"}


def is_loopback(host: str) -> bool:
    """Whether ``host`` is an address of this machine that others can't reach."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_origin(text: str) -> bool:
    """Whether ``text`` can be an allowed origin."""
    return _ORIGIN.fullmatch(text.lower()) is not None


def is_json(content_type: str) -> bool:
    """Whether a body of ``content_type`` is JSON."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and
                                          kind.endswith("+json"))


def _same(origin: str, host: str) -> bool:
    """Whether ``origin`` is that of pages that this server sent; ``host`` has been checked."""
    scheme, _, rest = origin.lower().partition("://")
    return scheme in ("http", "https") and rest != "" and rest == host.lower()
