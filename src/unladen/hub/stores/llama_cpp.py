"""llama.cpp's downloads: in the hub's layout now, in one flat folder before."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from unladen.errors import UnladenError
from unladen.hub.resolve import is_gguf, parts
from unladen.hub.stores._disk import entries, home_path, json_of, size_of
from unladen.hub.stores._repos import REPO, is_inside, of_repo
from unladen.hub.stores.base import Store, StoredModel
from unladen.hub.stores.hugging_face import in_hub_layout, removed_from_hub_layout

_MANIFEST: Final = re.compile(r"manifest=([^=]+)=([^=]+)=([^=]+)\.json")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def _named_cache() -> Path | None:
    named = os.environ.get("LLAMA_CACHE")
    return home_path(named) if named else None


def _old_cache() -> Path:
    """The flat folder."""
    if (named := _named_cache()) is not None:
        return named
    if sys.platform == "darwin":
        return home_path("~/Library/Caches/llama.cpp")
    if sys.platform == "win32":
        return home_path(Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local", "llama.cpp"))
    return home_path(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "llama.cpp"))


class LlamaCpp(Store):
    """Files that ``llama-cli -hf`` and ``--model-url`` have downloaded. Without LLAMA_CACHE new
    versions use the hub's own cache."""

    program: ClassVar[str] = "llama.cpp"
    order: ClassVar[int] = 1

    def models(self) -> Iterator[StoredModel]:
        if (cache := _named_cache()) is not None:
            yield from in_hub_layout(cache, self.program)
        old = _old_cache()
        there = {e.name: old / e.name for e in entries(old)}
        claimed: set[str] = set()
        for name in there:
            if match := _MANIFEST.fullmatch(name):
                manifest = json_of(there[name])
                for model in self._of_manifest(f"{match[1]}/{match[2]}", match[3],
                                               manifest if isinstance(manifest, dict) else {},
                                               there):
                    claimed |= {path.name for path in model.files}
                    yield dataclasses.replace(model, record=there[name])
        loose = {n: p for n, p in there.items() if is_gguf(n) and n not in claimed}
        yield from of_repo("", loose, store=self.program)

    def _of_manifest(self, repo: str, tag: str, manifest: Mapping[str, Any],
                     there: Mapping[str, Path]) -> Iterator[StoredModel]:
        """The model, and its projector, that ``manifest`` describes. ``there``: the paths of the
        folder's files by name."""
        files: dict[str, Path] = {}
        told: dict[str, Any] = {_filename(each): each for each in (
            manifest.get("ggufFile"), manifest.get("mmprojFile"))}
        for name in told if REPO.fullmatch(repo) else ():
            for part in parts(name):
                path = there.get(f"{repo}/{part}".replace("/", "_"))
                if part and path is not None:
                    files[part] = path
        for model in of_repo(repo, files, store=self.program):
            if model.kind == "model":
                names = (f"{repo}:{tag}", *([repo] if tag == "latest" else []))
                checked = _checked(model, told.get(model.filename, {}))
                model = dataclasses.replace(model, names=names, **checked)
            yield model

    def removed_with(self, model: StoredModel) -> list[Path]:
        cache, old = _named_cache(), _old_cache()
        if cache is not None and "snapshots" in model.path.parts:
            return removed_from_hub_layout(model, cache)
        if not all(is_inside(path, old) for path in model.files):
            raise UnladenError(f"the files of {model.name} lie outside of {old}",
                               hint="remove them by hand")
        beside = [Path(f"{path}{suffix}") for path in model.files for suffix in (".etag", ".json")]
        record = [model.record] if model.record else []
        return [*model.files, *(p for p in [*beside, *record] if p.is_file())]


def _filename(told: Any) -> str:
    """The name in the repository that a manifest gives; "" where that can't be one."""
    name = told.get("rfilename") if isinstance(told, dict) else None
    if not isinstance(name, str) or not is_gguf(name) or "\\" in name or "\0" in name:
        return ""
    return "" if name.startswith("/") or ".." in name.split("/") else name


def _checked(model: StoredModel, told: Mapping[str, Any]) -> dict[str, Any]:
    """What ``told``, a manifest's entry for a model's first part, adds to the model: its checksum,
    or that its size is wrong."""
    size, lfs = told.get("size"), told.get("lfs")
    there = size_of(model.path)
    if isinstance(size, int) and not model.problem and size != there:
        return {"problem": f"has {there} bytes, its manifest says {size}"}
    digest = lfs.get("sha256") if isinstance(lfs, dict) else None
    if isinstance(digest, str) and _SHA256.fullmatch(digest):
        return {"digests": {model.path: digest}}
    return {}
