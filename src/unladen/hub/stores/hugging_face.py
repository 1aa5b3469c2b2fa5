"""The cache of Hugging Face's programs, into which unladen downloads, too."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Final

from unladen.errors import UnladenError
from unladen.hub.ref import repo_folder
from unladen.hub.resolve import is_gguf
from unladen.hub.stores._disk import entries, files_below, home_path, is_folder, text_of
from unladen.hub.stores._repos import REPO, is_inside, of_repo
from unladen.hub.stores.base import Store, StoredModel

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_LONGEST_REF: Final = 200
"""Bytes of a ref's file at most: it holds a commit."""
_REF_DEPTH: Final = 4
"""Folders of refs within one another: refs/pr/1."""
MAIN_REF: Final = "main"
"""The ref that a repository's name stands for."""


def hub_cache(environment: Mapping[str, str] | None = None) -> Path:
    """The folder in which Hugging Face's programs keep their downloads."""
    given = os.environ if environment is None else environment
    home = Path(given.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    named = given.get("HF_HUB_CACHE") or given.get("HUGGINGFACE_HUB_CACHE")
    return home_path(named or Path(given.get("HF_HOME") or home, "hub"))


class HuggingFace(Store):
    """The hub's cache: a folder for each repository, with a folder for each commit, whose files are
    links to blobs."""

    program: ClassVar[str] = "Hugging Face"
    order: ClassVar[int] = 0
    is_ours: ClassVar[bool] = True

    def models(self) -> Iterator[StoredModel]:
        yield from in_hub_layout(hub_cache(), self.program)

    def removed_with(self, model: StoredModel) -> list[Path]:
        return removed_from_hub_layout(model, hub_cache())


def in_hub_layout(cache: Path, store: str) -> Iterator[StoredModel]:
    """Every model in ``cache``. A model's revision is the ref that leads to its commit, or the
    commit itself where no ref does; it is "" where the repository's name alone means this commit.
    """
    for entry in entries(cache):
        name = entry.name.removeprefix("models--").replace("--", "/", 1)
        if entry.name.startswith("models--") and REPO.fullmatch(name) and is_folder(entry):
            yield from _of_folder(name, cache / entry.name, store)


def _of_folder(repo: str, home: Path, store: str) -> Iterator[StoredModel]:
    refs = _refs(home / "refs")
    # A name means the ref main; of a copy without it, its first ref.
    plain = refs.get(MAIN_REF) or next((refs[name] for name in sorted(refs)), None)
    revisions = {commit: ref for ref, commit in sorted(refs.items(), reverse=True)}
    commits = [e.name for e in entries(home / "snapshots")
               if _COMMIT.fullmatch(e.name) and is_folder(e)]
    seen: set[str] = set()
    for commit in sorted(commits, key=lambda c: (c != plain, c not in revisions, c)):
        ref = revisions.get(commit, commit)
        revision = "" if commit == plain else commit if "/" in ref else ref
        files = {name: path for name, path in files_below(home / "snapshots" / commit)
                 if is_gguf(name)}
        if commit not in revisions:
            files = {n: p for n, p in files.items() if os.path.realpath(p) not in seen}
        seen |= {os.path.realpath(path) for path in files.values()}
        yield from of_repo(repo, files, store=store, revision=revision, digest_of=_digest_of)


def _refs(folder: Path) -> dict[str, str]:
    """The commit of each ref by the ref's name."""
    found = {}
    for name, path in files_below(folder, _REF_DEPTH):
        commit = (text_of(path, _LONGEST_REF) or "").strip()
        if _COMMIT.fullmatch(commit):
            found[name] = commit
    return found


def _digest_of(path: Path) -> str | None:
    """The SHA-256 that the name of the blob behind ``path`` says."""
    name = os.path.basename(os.path.realpath(path))
    return name if path.is_symlink() and _SHA256.fullmatch(name) else None


def removed_from_hub_layout(model: StoredModel, cache: Path) -> list[Path]:
    """The files of ``model`` in ``cache``, and their blobs where no other file needs them."""
    home = cache / repo_folder(model.repo)
    if not all(is_inside(path, home / "snapshots") for path in model.files):
        raise UnladenError(f"the files of {model.name} lie outside of {home}",
                           hint="remove them by hand")
    blobs = {os.path.realpath(path) for path in model.files if path.is_symlink()}
    used = {os.path.realpath(path) for _, path in files_below(home / "snapshots", 10)
            if path not in model.files}
    return [*model.files, *(Path(blob) for blob in sorted(blobs - used)
                            if is_inside(Path(blob), home / "blobs") and os.path.isfile(blob))]
