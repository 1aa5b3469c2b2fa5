"""Downloads files into the Hugging Face cache, which other tools share, and finds them there."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import socket
import threading
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypedDict
from urllib.parse import urlsplit

from unladen.errors import DiskFull, InvalidArgument, ModelNotFound, UnladenError
from unladen.hub.download import blob_of, checked, into_cache, n_missing
from unladen.hub.failures import Unreachable, typed_errors
from unladen.hub.ref import HubFile, HubQuant, repo_folder
from unladen.hub.resolve import DEFAULT_QUANT, parts, pick

log = logging.getLogger("unladen")

CONNECT_S: Final = 2.0
"""Seconds to wait for the hub's address, and as many to wait for a connection to it."""
ANSWER_S: Final = 10.0
"""Seconds to wait for the hub's list of a repository's files."""


def fetch(ref: HubQuant | HubFile, *, offline: bool = False, refresh: bool = False,
          progress: type | None = None) -> Path:
    """The local path of ``ref``. For a split model it is that of the first part; the others are in
    the same folder.

    A model in the cache is used without asking the hub; with ``refresh`` the hub is asked for a
    newer one. With ``offline``, or ``HF_HUB_OFFLINE`` in the environment, the network is never
    used. ``progress`` is a class like ``tqdm`` that shows how far downloads are; None leaves that
    to the hub's client.

    Raises :class:`ModelNotFound` where the model is neither in the cache nor on the hub, or the
    hub can't be reached; :class:`InvalidArgument` where several models fit; :class:`DiskFull`; and
    :class:`UnladenError` where the hub or the disk refuses.
    """
    from huggingface_hub import constants

    if offline or constants.HF_HUB_OFFLINE:
        return _in_cache(ref, why="" if offline else _offline_variable())
    if not refresh and (found := cached(ref)) is not None:
        return found
    try:
        return _download(ref, progress)
    except Unreachable as error:
        with contextlib.suppress(ModelNotFound, InvalidArgument):
            found = _in_cache(ref)
            log.warning("%s: %s is taken from the cache", error.message, found.name)
            return found
        raise


def cached(ref: HubQuant | HubFile) -> Path | None:
    """The path of ``ref`` in the cache; None where it isn't there. Without a wish only the default
    quant is taken from the cache: another one may be there by chance."""
    exact = (HubQuant(ref.repo, ref.quant or DEFAULT_QUANT, ref.revision)
             if isinstance(ref, HubQuant) else ref)
    try:
        return _in_cache(exact)
    except (ModelNotFound, InvalidArgument):
        return None  # not in the cache, or several fit: the hub's list decides


def _offline_variable() -> str:
    name = next((n for n in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE") if os.environ.get(n)),
                "HF_HUB_OFFLINE")
    return f"{name} is set: unset it to download the model"


def _download(ref: HubQuant | HubFile, progress: type | None) -> Path:
    from huggingface_hub import hf_hub_download

    shown: dict[str, Any] = {} if progress is None else {"tqdm_class": progress}
    with quiet_client(), typed_errors(ref):
        there = files_of(ref)
        names = wanted_files(ref, there)
        blobs = {name: blob_of(ref, name, **there[name]) for name in names}
        _check_room(ref, {name: n_missing(ref, blob) if blob else there[name]["size"]
                          for name, blob in blobs.items()})
        paths = []
        for name, blob in blobs.items():
            if blob is not None:
                into_cache(ref, blob, progress)
            path = Path(hf_hub_download(ref.repo, name, revision=ref.revision, **shown))
            paths.append(path if blob else checked(ref, path))
    return _together(ref, paths)


def wanted_files(ref: HubQuant | HubFile, there: Iterable[str]) -> Sequence[str]:
    """The names of the files of ``ref`` among those of its repository, ``there``. Raises what
    :func:`~unladen.hub.resolve.pick` raises."""
    names = list(there)
    if isinstance(ref, HubQuant):
        return pick(names, ref.quant, where=ref.repo)
    wanted = parts(ref.filename)
    missing = [name for name in wanted if name not in names]
    if missing:
        held = sorted(n for n in names if n.lower().endswith(".gguf"))
        raise ModelNotFound(f"{ref.repo} has no {missing[0]}", hint=(
            f"it has: {', '.join(held)}" if held else "it holds no GGUF file"))
    return wanted


class Told(TypedDict):
    """What the hub's list says of a file: the commit that it is listed for, its SHA-256 if the hub
    knows it, and its bytes, 0 where it doesn't say."""

    commit: str
    sha256: str | None
    size: int


def files_of(ref: HubQuant | HubFile) -> Mapping[str, Told]:
    """All files of the repository. There is one attempt, so that a user without a network doesn't
    wait for retries."""
    from huggingface_hub import HfApi, constants, get_session

    find_host(constants.ENDPOINT)
    patience: Any = type(get_session().timeout)(ANSWER_S, connect=CONNECT_S)
    info = HfApi().model_info(ref.repo, revision=ref.revision, files_metadata=True,
                              timeout=patience)
    commit = getattr(info, "sha", None) or ref.revision
    return {s.rfilename: Told(commit=commit, size=s.size or 0, sha256=getattr(
        getattr(s, "lfs", None), "sha256", None)) for s in info.siblings or ()}


def _check_room(ref: HubQuant | HubFile, sizes: Mapping[str, int]) -> None:
    """Raise :class:`DiskFull` before the download starts where the missing files don't fit on the
    disk."""
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE)
    there = _names(_snapshot(cache, ref))
    needed = sum(size for name, size in sizes.items() if name not in there)
    home = next((p for p in (cache, *cache.parents) if p.is_dir()), cache)
    try:
        free = shutil.disk_usage(home).free
    except OSError:
        return  # the download raises an error that says why
    if needed > free:
        raise DiskFull(f"{ref.repo} needs {needed} bytes, {free} are free in {cache}",
                       hint="make room there, or set HF_HOME to another disk")


def find_host(address: str) -> None:
    """Raise :class:`ConnectionError` where the address of the hub, or of the proxy before it, isn't
    found within ``CONNECT_S``. The system itself may try for half a minute."""
    host = urlsplit(address)
    proxy = urllib.request.getproxies().get(host.scheme)
    if proxy and not urllib.request.proxy_bypass(host.hostname or ""):
        host = urlsplit(proxy)
    failed: list[OSError] = []

    def find() -> None:
        try:
            socket.getaddrinfo(host.hostname, None)
        except OSError as error:
            failed.append(error)

    if not host.hostname:
        return  # the hub's client raises an error that says what is wrong with the address
    finder = threading.Thread(target=find, name="unladen-find-host", daemon=True)
    finder.start()
    finder.join(CONNECT_S)
    if finder.is_alive() or failed:
        raise ConnectionError(f"no address is known for {host.hostname}") from next(
            iter(failed), None)


@contextmanager
def quiet_client() -> Iterator[None]:
    """Silence the hub's client, which logs every attempt: this module logs the result in one line.
    """
    client = logging.getLogger("huggingface_hub")
    level = client.level
    if not log.isEnabledFor(logging.DEBUG):
        client.setLevel(logging.ERROR)
    try:
        yield
    finally:
        client.setLevel(level)


def _in_cache(ref: HubQuant | HubFile, why: str = "") -> Path:
    """The path of ``ref`` in the cache. ``why`` says why the network isn't tried, for the error's
    hint."""
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE)
    where = f"{ref.repo} in the cache {cache}"
    snapshot = _snapshot(cache, ref)
    there = _names(snapshot)
    names = parts(ref.filename) if isinstance(ref, HubFile) else ()
    try:
        names = names or pick(there, ref.quant if isinstance(ref, HubQuant) else None, where=where)
    except ModelNotFound as error:
        if not there:
            raise ModelNotFound(f"{ref.repo} isn't in the cache {cache}", hint=(
                why or "pull the model while there is a network")) from None
        error.hint = "; ".join(filter(None, [error.hint, why]))
        raise
    for name in names:
        if name not in there:
            raise ModelNotFound(f"{where} has no {name}",
                                hint=why or "pull the model while there is a network")
    return snapshot / names[0]


def _snapshot(cache: Path, ref: HubQuant | HubFile) -> Path:
    """The folder in which the hub's client keeps the files of this revision; it may not exist."""
    home = cache / repo_folder(ref.repo)
    commit = ref.revision
    with contextlib.suppress(OSError, UnicodeDecodeError):
        commit = (home / "refs" / ref.revision).read_text(encoding="utf-8").strip()
    return home / "snapshots" / (commit if commit.strip(".") and "/" not in commit else "none")


def _names(snapshot: Path) -> list[str]:
    try:
        return [p.relative_to(snapshot).as_posix() for p in snapshot.rglob("*") if p.is_file()]
    except OSError:
        return []  # opening the file raises an error that says why


def _together(ref: HubQuant | HubFile, paths: Sequence[Path]) -> Path:
    if len({path.parent for path in paths}) > 1:
        raise UnladenError(f"the parts of {ref.repo} are of different revisions",
                           hint="the repository has just changed: pull the model again")
    return paths[0]
