"""Looks around on the hub: finds repositories, lists their models, reads the beginning of a file.
Nothing is stored."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from unladen.errors import InvalidArgument, UnladenError
from unladen.hub.failures import Unreachable, typed_errors
from unladen.hub.fetch import (
    ANSWER_S,
    CONNECT_S,
    cached,
    files_of,
    find_host,
    quiet_client,
    wanted_files,
)
from unladen.hub.ref import HubFile, HubQuant, parse_ref
from unladen.hub.resolve import candidates, is_gguf, kind_of

N_FOUND: Final = 30
"""Repositories in one answer of a search."""
LONGEST_QUERY: Final = 200
"""Characters of a search."""
MOST_FILES: Final = 2000
"""Models of a repository that are listed."""
THE_SEARCH: Final = HubQuant("the search")
"""Stands for a repository in errors of a search."""


@dataclass(frozen=True, slots=True)
class FoundRepo:
    """A repository with GGUF files. ``updated``: as the hub writes times, "" where it doesn't say.
    ``gated``: its owner wants people to agree first."""

    repo: str
    downloads: int
    likes: int
    updated: str
    gated: bool


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model in a repository. ``name``: its first file. ``ref``: names the model. ``size``: bytes
    of all its files, 0 where the hub doesn't say. ``is_here``: it is in the hub's cache."""

    ref: str
    name: str
    quant: str
    size: int
    n_parts: int
    n_missing: int
    is_here: bool


def hub_ref(text: str) -> HubQuant | HubFile:
    """The reference to the hub that ``text`` is; it never means a file of this machine. Raises
    :class:`InvalidArgument`."""
    marked = text if text.startswith(("hf://", "https://", "http://", "hf.co/")) else f"hf://{text}"
    found = None if os.path.exists(marked) else parse_ref(marked, aliases={})
    if not isinstance(found, HubQuant | HubFile):
        raise InvalidArgument(f"{text[:LONGEST_QUERY]!r} names no model on the hub",
                              hint="give org/repo:Q4_K_M or hf://org/repo/file.gguf")
    return found


def search(text: str, cursor: str = "") -> tuple[list[FoundRepo], str]:
    """Repositories with GGUF files that ``text`` finds, the most used first, and the cursor for the
    next ones, "" for no more. ``cursor``: from the last answer. Raises :class:`Unreachable` where
    the network is off or the hub doesn't answer, and what
    :func:`~unladen.hub.failures.typed_errors` raises."""
    if len(text) > LONGEST_QUERY or len(cursor) > 10 * LONGEST_QUERY:
        raise InvalidArgument(f"a search has at most {LONGEST_QUERY} characters, got {len(text)}",
                              hint="search for a name, or for its owner")
    from huggingface_hub import constants, get_session, utils
    client: Any = utils
    asked: dict[str, Any] = {
        "search": text, "filter": "gguf", "sort": "downloads", "direction": "-1",
        "limit": str(N_FOUND), "expand[]": ["downloads", "likes", "lastModified", "gated"]}
    if cursor:
        asked["cursor"] = cursor
    _check_online(THE_SEARCH)
    with quiet_client(), typed_errors(THE_SEARCH):
        find_host(constants.ENDPOINT)
        patience: Any = type(get_session().timeout)(ANSWER_S, connect=CONNECT_S)
        response = get_session().get(f"{constants.ENDPOINT}/api/models", params=asked,
                                     headers=client.build_hf_headers(), timeout=patience,
                                     follow_redirects=True)
        client.hf_raise_for_status(response)
        listed = response.json()
        if not isinstance(listed, list):
            raise ValueError("it isn't a list of repositories")
        return [_found(each) for each in listed[:N_FOUND]], _next_cursor(response)


def models_of(repo: str) -> list[HubModel]:
    """The models of the repository ``repo``, by name. Raises what :func:`search` raises, and
    :class:`ModelNotFound` where the hub has no such repository."""
    ref = hub_ref(repo)
    if not isinstance(ref, HubQuant) or ref.quant is not None:
        raise InvalidArgument(f"{repo[:LONGEST_QUERY]!r} isn't a repository",
                              hint="give org/repo")
    _check_online(ref)
    with quiet_client(), typed_errors(ref):
        there = files_of(ref)
    found = candidates(name for name in there if is_gguf(name) and kind_of(name) == "model")
    quants = [each.quant for each in found]
    models = []
    for each in found[:MOST_FILES]:
        plain = each.quant and quants.count(each.quant) == 1
        name = f"{repo}:{each.quant}" if plain else f"hf://{repo}/{each.files[0]}"
        held = [there[file]["size"] for file in each.files if file in there]
        models.append(HubModel(name, each.files[0], each.quant, sum(held), len(each.files),
                               len(each.missing), cached(hub_ref(name)) is not None))
    return models


def _found(told: Any) -> FoundRepo:
    if not isinstance(told, Mapping) or not isinstance(told.get("id"), str):
        raise ValueError("an entry isn't a repository")
    downloads, likes, updated = (told.get(name) for name in ("downloads", "likes", "lastModified"))
    return FoundRepo(told["id"][:LONGEST_QUERY], downloads if isinstance(downloads, int) else 0,
                     likes if isinstance(likes, int) else 0,
                     updated if isinstance(updated, str) else "", bool(told.get("gated")))


def _next_cursor(response: Any) -> str:
    address = response.links.get("next", {}).get("url", "")
    return next(iter(parse_qs(urlsplit(address).query).get("cursor", [])), "")


def _check_online(ref: HubQuant | HubFile) -> None:
    from huggingface_hub import constants
    if constants.HF_HUB_OFFLINE:
        raise Unreachable(f"the hub isn't asked for {ref.repo}: HF_HUB_OFFLINE is set",
                          hint="unset it to use the network")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a model on the hub: its ``name`` in the repository, its bytes, its address."""

    name: str
    size: int
    address: str


def remote_files(ref: HubQuant | HubFile) -> list[RemoteFile]:
    """The files of the model ``ref``, in their order. Raises what :func:`models_of` raises."""
    from huggingface_hub import hf_hub_url
    _check_online(ref)
    with quiet_client(), typed_errors(ref):
        there = files_of(ref)
        return [RemoteFile(name, there[name]["size"],
                           hf_hub_url(ref.repo, name, revision=there[name]["commit"]))
                for name in wanted_files(ref, there)]


def beginning(ref: HubQuant | HubFile, file: RemoteFile, n_bytes: int, begin: int = 0) -> bytes:
    """Bytes ``begin`` to ``n_bytes`` of ``file``, of the model ``ref``, or as many as it has.
    Raises what :func:`models_of` raises."""
    from huggingface_hub import constants, get_session, utils
    client: Any = utils
    headers = {**client.build_hf_headers(), "Accept-Encoding": "identity",
               "Range": f"bytes={begin}-{n_bytes - 1}"}
    found = bytearray()
    with quiet_client(), typed_errors(ref), get_session().stream(
            "GET", file.address, headers=headers, follow_redirects=True,
            timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT) as response:
        client.hf_raise_for_status(response)
        # A server that sends the whole file begins at 0.
        skipped = begin if response.status_code != 206 else 0
        for chunk in response.iter_bytes():
            found += chunk
            if len(found) >= skipped + n_bytes - begin:
                break
    del found[:skipped]
    if not found and begin < file.size:
        raise UnladenError(f"the hub sent nothing of {file.name}", hint="try again later")
    return bytes(found[:n_bytes - begin])

