"""A page that talks to ``/ui/api`` of a server process."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from server.serving import PATIENCE, Served, serving

PRETENDED = ("--device", "null:0,cpu", "--n-gpu-layers", "0", "--stream-weights", "off")
"""A pretended device beside the processor, which has all layers at first."""


class Page:
    """A page at ``address``."""

    def __init__(self, address: str, served: Served, key: str = "") -> None:
        self.address, self.served = address, served
        self.client = httpx.Client(base_url=address, timeout=PATIENCE, headers={
            "Authorization": f"Bearer {key}"} if key else {})

    def get(self, path: str, status: int = 200) -> Any:
        return self._json(self.client.get(f"/ui/api/{path}"), status)

    def post(self, path: str, body: Any, status: int = 200, method: str = "POST") -> Any:
        return self._json(self.client.request(method, f"/ui/api/{path}", json=body), status)

    def _json(self, answer: httpx.Response, status: int) -> Any:
        assert answer.status_code == status, answer.text
        return answer.json()

    def model(self, name: str) -> Any:
        return next(each for each in self.get("state")["models"] if each["id"] == name)

    def until(self, condition: Callable[[], Any]) -> Any:
        """What ``condition`` gives once it gives something."""
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < end, self.served.said
            time.sleep(0.02)
        return found

    def until_state(self, name: str, *states: str) -> Any:
        """The model once it is in one of ``states``."""
        return self.until(lambda: (m := self.model(name))["state"] in states and m)

    @contextlib.contextmanager
    def events(self, query: str = "") -> Iterator[Iterator[tuple[int, str, Any]]]:
        """Number, name and data of events as they come."""
        with self.client.stream("GET", f"/ui/api/events{query}") as answer:
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield _read(answer.iter_lines())


def _read(lines: Iterator[str]) -> Iterator[tuple[int, str, Any]]:
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line:
            found[name] = value
        elif "data" in found:
            yield int(found["id"]), found["event"], json.loads(found["data"])
            found = {}


@contextlib.contextmanager
def page(folder: Path, *arguments: object, **environment: str) -> Iterator[Page]:
    """A server process with ``arguments``, and a page of it. All stores are empty, unless
    ``environment`` says where they are."""
    home = folder / "home"
    environment = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "HF_HOME": str(home),
                   "HF_HUB_OFFLINE": "1", "UNLADEN_NULL_MEMORY": str(10**8), **environment}
    home.mkdir(exist_ok=True)
    with serving(folder, *arguments, **environment) as served:
        address = served.wait_for(r"at (http://127\.0\.0\.1:\d+)")
        found = Page(address, served)
        with found.client:
            yield found
