"""Downloads one model for the server. The process can be ended at any time: the bytes that have
arrived stay, and the next one goes on from there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from unladen.errors import UnladenError
from unladen.hub.browse import hub_ref
from unladen.hub.download import UNFINISHED, blob_of, folder_of, n_missing
from unladen.hub.failures import typed_errors
from unladen.hub.fetch import cached, fetch, files_of, quiet_client, wanted_files
from unladen.hub.ref import HubFile, HubQuant
from unladen.server.worker.arrival import TOLD_SECONDS, Arrival
from unladen.server.worker.wrong import fault_of

if TYPE_CHECKING:
    from unladen.server.worker.link import Link


def download(link: Link, text: str) -> None:
    """Put the model that ``text`` names on the hub into the hub's cache. Sends how much there is to
    get and which files have the parts, how much has arrived, and how it ended."""
    link.listen(lambda message: None)  # so that this process ends with its server
    try:
        ref = hub_ref(text)
        if cached(ref) is None:
            _fetch(link, ref)
    except BaseException as error:  # noqa: BLE001  # the server tells the page why
        link.send([["failed", fault_of(error).pack()]])
    else:
        link.send([["done"]])
    link.wait()


def _fetch(link: Link, ref: HubQuant | HubFile) -> None:
    with quiet_client(), typed_errors(ref):
        there = files_of(ref)
        names = wanted_files(ref, there)
        blobs = [blob_of(ref, name, **there[name]) for name in names]
    if None in blobs:
        raise UnladenError(f"{ref.repo}: the hub knows no checksum of this model",
                           hint="get it with: unladen pull")
    known = [blob for blob in blobs if blob is not None]
    total = sum(blob.size for blob in known)
    whole = sum(blob.size for blob in known if not n_missing(ref, blob))
    parts = [str(folder_of(ref) / f"{blob.sha256}{UNFINISHED}") for blob in known]
    link.send([["size", total, whole, parts]])
    fetch(ref, progress=_counting(lambda n: link.send([["got", whole + n]])))


def _counting(tell: Callable[[int], None]) -> type[Arrival]:
    """A class for the hub's client that tells how many bytes there are of all files that it
    gets."""
    counts: dict[str, float] = {}
    told = [0.0]

    class Counting(Arrival):
        def __init__(self, *args: object, total: float | None = None, initial: float = 0,
                     desc: object = "", **options: object) -> None:
            super().__init__(*args, total=total, initial=initial, **options)
            self._name = str(desc)

        def update(self, n: float | None = 1) -> None:
            self.n += n or 0
            counts[self._name] = self.n
            now = time.monotonic()
            if now - told[0] >= TOLD_SECONDS or self.n == self.total:
                told[0] = now
                tell(int(sum(counts.values())))

    return Counting
