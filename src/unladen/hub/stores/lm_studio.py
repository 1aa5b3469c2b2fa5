"""LM Studio's models: a folder for each publisher, in it one for each repository."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final

from unladen.errors import UnladenError
from unladen.hub.resolve import is_gguf
from unladen.hub.stores._disk import entries, home_path, is_folder, json_of, printable, text_of
from unladen.hub.stores._repos import is_inside, of_repo
from unladen.hub.stores.base import Store, StoredModel

_LONGEST_POINTER: Final = 8192
"""Bytes of the file that names LM Studio's home at most."""


def _homes() -> list[Path]:
    """Where LM Studio's settings may be: the place that it was moved to, the old one, the new one.
    Several may hold models from different times."""
    moved = (text_of(home_path("~/.lmstudio-home-pointer"), _LONGEST_POINTER) or "").strip()
    named = [home_path(moved)] if moved and "\0" not in moved else []
    return [*named, home_path("~/.cache/lm-studio"), home_path("~/.lmstudio")]


def _folders() -> list[Path]:
    """The folders with models."""
    found: dict[str, Path] = {}
    for home in _homes():
        settings = json_of(home / "settings.json")
        named = settings.get("downloadsFolder") if isinstance(settings, dict) else None
        is_named = isinstance(named, str) and bool(named) and "\0" not in named
        folder = home_path(str(named)) if is_named else home / "models"
        found.setdefault(os.path.realpath(folder), folder)
    return list(found.values())


class LMStudio(Store):
    """Models as PUBLISHER/REPO/file.gguf. Both folders and files may be links to elsewhere."""

    program: ClassVar[str] = "LM Studio"
    order: ClassVar[int] = 2

    def models(self) -> Iterator[StoredModel]:
        seen: set[str] = set()
        for root in _folders():
            real = Path(os.path.realpath(root))
            # A link to a folder above would show the same models again, as a repository's.
            seen |= {str(p) for p in (real, *real.parents)}
            for publisher in _new_folders(root, seen):
                for repo in _new_folders(root / publisher, seen):
                    folder = root / publisher / repo
                    files = {e.name: folder / e.name for e in entries(folder) if is_gguf(e.name)}
                    yield from of_repo(printable(f"{publisher}/{repo}"), files, store=self.program)

    def removed_with(self, model: StoredModel) -> list[Path]:
        if not all(any(is_inside(path, root) for root in _folders()) for path in model.files):
            raise UnladenError(f"{model.path} lies outside of LM Studio's folder, behind a link",
                               hint="remove it by hand")
        return list(model.files)


def _new_folders(folder: Path, seen: set[str]) -> Iterator[str]:
    """Names of the folders in ``folder`` that aren't ``seen`` yet."""
    for entry in entries(folder):
        real = os.path.realpath(folder / entry.name)
        if is_folder(entry) and real not in seen:
            seen.add(real)
            yield entry.name
