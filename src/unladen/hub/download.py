"""Downloads a file into the hub's cache so that it can be resumed, and checks its SHA-256.

The hub's client deletes what it has when a download ends early. Here the part that has arrived
stays beside the blobs, and the next download goes on from there.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from unladen.errors import DiskFull, UnladenError
from unladen.hub.failures import FULL, broken_off, http_error
from unladen.hub.ref import HubFile, HubQuant, repo_folder

log = logging.getLogger("unladen")

UNFINISHED: Final = ".unladen.incomplete"
"""Ends the name of a part of a blob."""
CHUNK: Final = 1 << 20
"""Bytes of a part that are read and hashed at once."""
N_TRIES: Final = 5
"""Requests after one another that may bring nothing before the download is given up."""
PAUSE_S: Final = 1.0
"""Seconds between two requests after one that broke off."""
N_FRESH: Final = 2
"""Downloads of a whole file before its wrong checksum is an error."""
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Blob:
    """A file of the hub: its SHA-256, which is the name of its blob, its size in bytes and its
    address."""

    name: str
    sha256: str
    size: int
    address: str


def blob_of(ref: HubQuant | HubFile, name: str, *, commit: str, sha256: str | None, size: int
            ) -> Blob | None:
    """The blob of the file ``name``; ``sha256`` and ``size`` as far as the hub's list says them,
    else they are asked for. None where the hub knows no SHA-256: its client downloads such files.
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url

    address = hf_hub_url(ref.repo, name, revision=commit)
    if not sha256 or not size:
        told = get_hf_file_metadata(address)
        sha256, size = told.etag, told.size or 0
    # The hub serves larger files only to its own client.
    if (sha256 is None or not _SHA256.fullmatch(sha256)
            or not 0 < size <= constants.MAX_HTTP_DOWNLOAD_SIZE):
        return None
    return Blob(name, sha256, size, address)


def folder_of(ref: HubQuant | HubFile) -> Path:
    """The folder of the repository's blobs."""
    from huggingface_hub import constants
    return Path(constants.HF_HUB_CACHE, repo_folder(ref.repo), "blobs")


def n_missing(ref: HubQuant | HubFile, blob: Blob) -> int:
    """Bytes of ``blob`` that aren't on the disk yet."""
    folder = folder_of(ref)
    if (folder / blob.sha256).exists():
        return 0
    with contextlib.suppress(OSError):
        return max(0, blob.size - (folder / f"{blob.sha256}{UNFINISHED}").stat().st_size)
    return blob.size


def into_cache(ref: HubQuant | HubFile, blob: Blob, progress: type | None) -> None:
    """Put ``blob`` into the cache, unless it is there. ``progress`` is a class like ``tqdm``.

    Raises :class:`DiskFull`, and :class:`UnladenError` where the file that comes isn't the one that
    the hub describes; and the errors of the hub's client. The bytes that have arrived stay.
    """
    from huggingface_hub import constants, utils

    client: Any = utils  # it exports these names without saying so to type checkers
    folder = folder_of(ref)
    folder.mkdir(parents=True, exist_ok=True)
    locks = Path(constants.HF_HUB_CACHE, ".locks", folder.parent.name)
    locks.mkdir(parents=True, exist_ok=True)
    # The hub's client takes the same lock.
    with client.WeakFileLock(locks / f"{blob.sha256}.lock"):
        if (folder / blob.sha256).exists():
            return
        part = folder / f"{blob.sha256}{UNFINISHED}"
        for n in range(1, N_FRESH + 1):
            shown = (progress or client.tqdm)(
                total=blob.size, initial=0, unit="B", unit_scale=True, desc=blob.name)
            with contextlib.closing(shown):
                digest = _whole(ref, blob, part, shown)
            if digest == blob.sha256:
                os.replace(part, folder / blob.sha256)
                return
            part.unlink()
            log.warning("%s came with a wrong checksum%s", blob.name,
                        ": it is downloaded again" if n < N_FRESH else "")
    raise UnladenError(f"{ref.repo}: the {blob.size} bytes of {blob.name} that come aren't those "
                       f"that the hub describes (SHA-256 {blob.sha256[:12]}..., got "
                       f"{digest[:12]}...)", hint="a proxy or the network changes them: try again "
                       "later, or from elsewhere")


def _whole(ref: HubQuant | HubFile, blob: Blob, part: Path, shown: Any) -> str:
    """Fill ``part`` up to the size of ``blob``; returns the SHA-256 of what is in it then."""
    idle = 0
    with part.open("a+b") as file:
        digest = _hashed(file, shown)
        if file.tell() > blob.size:
            digest = _emptied(file, shown)
        while (begin := file.tell()) < blob.size:
            try:
                for chunk, is_new in _pieces(blob, begin):
                    if is_new and file.tell():
                        digest = _emptied(file, shown)
                    # A server may send more than it should: the checksum tells.
                    kept = chunk[:blob.size - file.tell()]
                    _append(ref, blob, file, kept)
                    digest.update(kept)
                    shown.update(len(kept))
                    if file.tell() >= blob.size:
                        break
            except (http_error(), ConnectionError) as error:
                if _is_answer(error):
                    raise
                log.debug("%s broke off: %s", blob.name, error)
            idle = 0 if file.tell() > begin else idle + 1
            if idle >= N_TRIES:
                raise broken_off(ref)
            if file.tell() < blob.size:
                time.sleep(PAUSE_S)
        file.flush()
        os.fsync(file.fileno())
    return str(digest.hexdigest())


def _hashed(file: BinaryIO, shown: Any) -> Any:
    """The running SHA-256 of what ``file`` holds; its end is where the next bytes go."""
    digest = hashlib.sha256()
    file.seek(0)
    while chunk := file.read(CHUNK):
        digest.update(chunk)
        shown.update(len(chunk))
    return digest


def _emptied(file: BinaryIO, shown: Any) -> Any:
    shown.update(-file.tell())
    file.truncate(0)
    file.seek(0)
    return hashlib.sha256()


def _pieces(blob: Blob, begin: int) -> Iterator[tuple[bytes, bool]]:
    """The bytes of ``blob`` from ``begin`` on. The flag marks the first piece of a server that
    begins at 0 instead."""
    from huggingface_hub import constants, get_session, utils

    client: Any = utils
    headers = {**client.build_hf_headers(), "Accept-Encoding": "identity"}
    if begin:
        headers["Range"] = f"bytes={begin}-"
    with get_session().stream("GET", blob.address, headers=headers, follow_redirects=True,
                              timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT) as response:
        client.hf_raise_for_status(response)
        starts = response.headers.get("Content-Range", "").startswith(f"bytes {begin}-")
        is_new = begin > 0 and not (response.status_code == 206 and starts)
        if is_new and response.status_code == 206:
            raise ConnectionError("the server sent another part than the one asked for")
        # A size for the pieces would hold back the last one of a connection that breaks off.
        for chunk in response.iter_bytes():
            yield chunk, is_new
            is_new = False


def _append(ref: HubQuant | HubFile, blob: Blob, file: BinaryIO, chunk: bytes) -> None:
    try:
        file.write(chunk)
        file.flush()
    except OSError as error:
        if error.errno not in FULL:
            raise
        kept = os.fstat(file.fileno()).st_size
        raise DiskFull(f"{ref.repo} doesn't fit on the disk of {folder_of(ref).parents[1]}: "
                       f"{error.strerror}; {kept} of {blob.size} bytes of {blob.name} are there",
                       hint="make room and start it again, it goes on from there; or set HF_HOME "
                            "to another disk") from error


def _is_answer(error: BaseException) -> bool:
    """Whether ``error`` is the server's answer, which another try wouldn't change."""
    return getattr(error, "response", None) is not None


def checked(ref: HubQuant | HubFile, path: Path) -> Path:
    """``path``, which the hub's client has downloaded, if it has the SHA-256 that its blob's name
    says. Otherwise it is removed, and :class:`UnladenError` is raised."""
    blob = Path(os.path.realpath(path))
    if path.is_symlink() and _SHA256.fullmatch(blob.name):
        with blob.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != blob.name:
            path.unlink()
            blob.unlink()
            raise UnladenError(f"{ref.repo}: {path.name} came with a wrong checksum",
                               hint="start the download again")
    return path
