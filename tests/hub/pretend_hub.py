"""A hub on this machine that fails as it is told to."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import socket
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

COMMIT = "5" * 40
CONTENT = bytes(range(256)) * 4000
PIECE = 2**15
"""Bytes of a file that are sent at once where the hub has a pace."""


class Pretend(http.server.ThreadingHTTPServer):
    """A hub with one repository. ``answer``: a status and headers for every request; ``n_cut``:
    downloads that break off half-way; ``n_corrupt``: downloads with a wrong byte; ``takes_ranges``:
    whether it sends a part where one is asked for; ``lists_sums``: whether its list of files has
    their checksums; ``content``: of its files; ``pace``: seconds between two pieces of a file;
    ``asked`` lists the requests, ``begins`` where downloads began."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer: tuple[int, dict[str, str]] | None = None
        self.gated = False
        self.n_cut = 0
        self.n_corrupt = 0
        self.takes_ranges = True
        self.lists_sums = True
        self.content = CONTENT
        self.pace = 0.0
        self.begins: list[int] = []
        self.asked: list[str] = []


class Handler(http.server.BaseHTTPRequestHandler):
    server: Pretend
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        self.server.asked.append(format % args)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if self.server.answer is not None:
            self._send(self.server.answer[0], b"no", self.server.answer[1])
        elif self.path.startswith("/api/models?"):
            self._search()
        elif self.path.startswith("/api/models/org/repo/"):
            names = ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "README.md"]
            self._send(200, json.dumps({
                "id": "org/repo", "sha": COMMIT,
                "siblings": [self._listed(name) for name in names]}).encode(), {})
        elif self.path.startswith("/org/repo/resolve/"):
            self._file()
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _search(self) -> None:
        """Two pages of one repository each, where the search has "repo" in it."""
        asked = parse_qs(urlsplit(self.path).query)
        found = "repo" in asked["search"][0]
        page = asked.get("cursor", ["1"])[0]
        address = f"http://127.0.0.1:{self.server.server_port}{self.path}&cursor=2"
        more = {"Link": f'<{address}>; rel="next"'} if found and page == "1" else {}
        self._send(200, json.dumps([{
            "id": "org/repo" if page == "1" else "org/other", "downloads": 7, "likes": 3,
            "lastModified": "2026-01-02T03:04:05.000Z", "gated": False}] if found else []
            ).encode(), more)

    def _listed(self, name: str) -> dict[str, Any]:
        told: dict[str, Any] = {"rfilename": name}
        if self.server.lists_sums and name.endswith(".gguf"):
            size = len(self.server.content)
            told |= {"size": size, "lfs": {"sha256": self._sha256(), "size": size,
                                           "pointerSize": 133}}
        return told

    def _sha256(self) -> str:
        return hashlib.sha256(self.server.content).hexdigest()

    def _file(self) -> None:
        if self.server.gated:
            self._send(403, b"{}", {"X-Error-Code": "GatedRepo"})
            return
        begin, end = 0, None
        wanted = self.headers.get("Range")
        if wanted and self.server.takes_ranges:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            begin, end = int(first), int(last) + 1 if last else None
        content = self.server.content[begin:end]
        if self.command == "GET":
            self.server.begins.append(begin)
            if self.server.n_corrupt:
                self.server.n_corrupt -= 1
                content = content[:-1] + bytes([content[-1] ^ 1])
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{self._sha256()}"',
                   "Accept-Ranges": "bytes"}
        is_part = begin > 0 or end is not None
        if is_part:
            headers["Content-Range"] = (f"bytes {begin}-{begin + len(content) - 1}/"
                                        f"{len(self.server.content)}")
        if self.command == "GET" and self.server.n_cut:
            self.server.n_cut -= 1
            self._send(206 if is_part else 200, content, headers, cut=True)
        else:
            self._send(206 if is_part else 200, content, headers)

    def _send(self, status: int, content: bytes, headers: dict[str, str], cut: bool = False
              ) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self._write(content[:len(content) // 2] if cut else content)
        self.close_connection = cut
        if cut:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    def _write(self, content: bytes) -> None:
        if not self.server.pace:
            self.wfile.write(content)
            return
        with contextlib.suppress(OSError):  # the client left
            for begin in range(0, len(content), PIECE):
                self.wfile.write(content[begin:begin + PIECE])
                self.wfile.flush()
                time.sleep(self.server.pace)
