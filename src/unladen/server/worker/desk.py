"""Answers questions that need models' headers, for a server that loads nothing for them.

Questions run in a few threads, so that a slow one doesn't hold up the others.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from unladen.api.headers import Header, Headers, devices_of
from unladen.hub.browse import models_of, search
from unladen.hub.resolve import parts
from unladen.server.worker.papers import Papers, summary
from unladen.server.worker.wrong import fault_of

if TYPE_CHECKING:
    from unladen.server.worker.link import Link

N_THREADS: Final = 4
"""Questions that are answered at the same time."""


class Desk:
    """Answers over ``link``."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._threads = ThreadPoolExecutor(N_THREADS, "unladen-desk")
        self._headers = Headers()
        self._reading = threading.Lock()
        self._papers = Papers()
        self._waiting: set[int] = set()
        self._answers: Mapping[str, Callable[..., Any]] = {
            "library": self._library, "devices": self._devices, "plan": self._plan,
            "fit": self._fit, "search": self._search, "repository": self._repository}

    def handle(self, message: Sequence[Any]) -> None:
        """Take a question with its number, or drop one that nobody waits for."""
        kind, number, *content = message
        if kind == "ask":
            self._waiting.add(number)
            self._threads.submit(self._answer, number, *content)
        elif kind == "drop":
            self._waiting.discard(number)

    def _answer(self, number: int, kind: str, content: Sequence[Any]) -> None:
        if number not in self._waiting:
            return
        self._waiting.discard(number)
        try:
            found = self._answers[kind](*content)
        except BaseException as error:  # noqa: BLE001  # it is this question's alone
            self._link.send([["failed", number, fault_of(error).pack()]])
        else:
            self._link.send([["answered", number, found]])

    def _library(self, paths: Sequence[str]) -> list[dict[str, Any]]:
        """Every model of the stores, and the files ``paths``, which settings name."""
        with self._reading:
            found = [{"ref": model.facts()["name"], "path": str(model.path), "place": model.place,
                      "store": model.store, "bytes": model.size, "quant": model.quant,
                      "problem": model.facts()["problem"],
                      "parts_missing": len(parts(model.filename)) - len(model.files),
                      **_of_header(header)}
                     for model, header in self._headers.stored()]
            return found + [self._file(path) for path in paths]

    def _file(self, path: str) -> dict[str, Any]:
        header = self._headers.of(Path(path))
        folder, name = os.path.split(path)
        expected = parts(name)
        sizes = [os.path.getsize(each) for part in expected
                 if os.path.exists(each := os.path.join(folder, part))]
        return {"ref": "", "path": path, "place": os.path.realpath(path), "store": "file",
                "bytes": sum(sizes), "quant": header.glance.quant,
                "problem": header.glance.problem,
                "parts_missing": len(expected) - len(sizes), **_of_header(header)}

    def _plan(self, ref: str, options: Mapping[str, Any], taken: Mapping[str, int],
              devices: Sequence[str]) -> dict[str, Any]:
        """The facts of a plan for the file or the model ``ref``."""
        return self._papers.plan(ref, options, taken, devices).facts()

    def _fit(self, ref: str, options: Mapping[str, Any], taken: Mapping[str, int]
             ) -> dict[str, Any]:
        """Whether the model ``ref`` fits, and how fast it would be."""
        return summary(self._papers.plan(ref, options, taken))

    def _search(self, text: str, cursor: str) -> dict[str, Any]:
        """Repositories on the hub."""
        found, after = search(text, cursor)
        return {"repos": [asdict(each) for each in found], "cursor": after or None}

    def _repository(self, repo: str) -> list[dict[str, Any]]:
        """The models of a repository on the hub."""
        return [{"ref": each.ref, "name": each.name, "quant": each.quant, "bytes": each.size,
                 "parts": each.n_parts, "parts_missing": each.n_missing, "is_here": each.is_here}
                for each in models_of(repo)]

    def _devices(self, names: Sequence[str]) -> list[dict[str, Any]]:
        return devices_of(names)


def _of_header(header: Header) -> dict[str, Any]:
    return {"arch": header.arch, "parameters": header.n_parameters, "context": header.context}


def answer(link: Link) -> None:
    """Answer questions until the server ends this process."""
    # The page shows what a plan does; a line for each of its plans would flood the log.
    logging.getLogger("unladen").setLevel(logging.ERROR)
    desk = Desk(link)
    link.listen(desk.handle)
    link.wait()
