"""Ollama's files: names of models, manifests, and blobs by their digests."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from unladen.hub.stores._disk import entries, is_folder, json_of, problem_with, size_of

HOST: Final = "registry.ollama.ai"
NAMESPACE: Final = "library"
TAG: Final = "latest"
_IMAGE: Final = "application/vnd.ollama.image."
_LIST: Final = "application/vnd.ollama.manifest.list.v2+json"
_DIGEST: Final = re.compile(r"sha256[:-]([0-9a-f]{64})")
PARTS: Final = (re.compile(r"\w[\w.:-]{0,349}", re.ASCII), re.compile(r"\w[\w-]{0,79}", re.ASCII),
                 re.compile(r"\w[\w.-]{0,79}", re.ASCII), re.compile(r"\w[\w.-]{0,79}", re.ASCII))
"""Patterns that host, namespace, model and tag must match."""
TREES: Final = ("manifests-v2", "manifests")
"""Folders of manifests; a name in the first hides it in the second."""
_HUB_HOSTS: Final = ("hf.co", "huggingface.co")


@dataclass(frozen=True, slots=True)
class Name:
    """A model's full name."""

    host: str
    namespace: str
    model: str
    tag: str

    @property
    def short(self) -> str:
        """The name as Ollama shows it: without the default host and namespace, with the tag."""
        lead = "" if self.host == HOST else f"{self.host}/"
        space = "" if not lead and self.namespace == NAMESPACE else f"{self.namespace}/"
        return f"{lead}{space}{self.model}:{self.tag}"

    @property
    def others(self) -> tuple[str, ...]:
        """Other ways to write it."""
        full = f"{self.namespace}/{self.model}"
        found = [f"{self.host}/{full}:{self.tag}"]
        if self.host == HOST:
            found.append(f"{full}:{self.tag}")
        if self.host in _HUB_HOSTS:
            found += [f"{host}/{full}:{self.tag}" for host in _HUB_HOSTS]
        if self.tag == TAG:
            found += [name.removesuffix(f":{TAG}") for name in (self.short, *found)]
        return tuple(dict.fromkeys(name for name in found if name != self.short))


@dataclass(frozen=True, slots=True)
class Layer:
    """A blob that a manifest names. ``problem``: why it can't be used. Without a proper digest
    there is no ``path``, so that nothing outside of the store is touched."""

    kind: str
    path: Path | None
    digest: str
    size: int
    problem: str


def manifests(models: Path) -> Iterator[tuple[Name, Path]]:
    """Every manifest below the folder ``models`` and the name that its place says."""
    seen: set[Name] = set()
    for tree in TREES:
        root = models / tree
        for path in _four_levels(root, 0):
            name = Name(*path.relative_to(root).parts)
            if name not in seen:
                seen.add(name)
                yield name, path


def _four_levels(folder: Path, level: int) -> Iterator[Path]:
    for entry in entries(folder):
        if not PARTS[level].fullmatch(entry.name):
            continue  # not a name: .DS_Store and the like
        path = folder / entry.name
        if level < len(PARTS) - 1:
            if is_folder(entry):
                yield from _four_levels(path, level + 1)
        elif not is_folder(entry):
            yield path


def manifest_of(models: Path, path: Path) -> Mapping[str, Any] | None:
    """The manifest at ``path``; None where it holds none. A list of manifests gives the one for
    GGUF."""
    inside = [os.path.realpath(models / part) for part in (*TREES, "blobs")]
    if not any(Path(os.path.realpath(path)).is_relative_to(root) for root in inside):
        return None  # a link that leads out of the store
    found = json_of(path)
    if isinstance(found, dict) and found.get("mediaType") == _LIST:
        found = next((json_of(layer.path) for child in _dicts(found.get("manifests"))
                      if _is_for_gguf(child) and (layer := layer_of(models, child)).path
                      and not layer.problem), None)
    return found if isinstance(found, dict) and isinstance(found.get("layers"), list) else None


def _is_for_gguf(child: Mapping[str, Any]) -> bool:
    return child.get("runner") in ("ollama", "llamacpp") or child.get("format") == "gguf"


def layers_of(models: Path, manifest: Mapping[str, Any]) -> list[Layer]:
    """The layers of ``manifest`` in their order."""
    return [layer_of(models, told) for told in manifest["layers"]]


def config_of(models: Path, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of ``manifest``; {} where it has none."""
    told = manifest.get("config")
    layer = layer_of(models, told) if isinstance(told, dict) else None
    found = json_of(layer.path) if layer and layer.path and not layer.problem else None
    return found if isinstance(found, dict) else {}


def layer_of(models: Path, told: Any) -> Layer:
    """The blob that ``told``, a part of a manifest, names."""
    if not isinstance(told, dict):
        return Layer("", None, "", 0, "has a manifest with a malformed layer")
    media, digest, size = told.get("mediaType"), told.get("digest"), told.get("size")
    kind = media.removeprefix(_IMAGE) if isinstance(media, str) else ""
    match = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    if match is None:
        return Layer(kind, None, "", 0, "has a manifest with a malformed digest")
    path = models / "blobs" / f"sha256-{match[1]}"
    problem = _wrong(models, path, size)
    return Layer(kind, path, match[1], 0 if problem else size_of(path), problem)


def _wrong(models: Path, path: Path, size: object) -> str:
    if not os.path.lexists(path):
        return f"lacks its blob {path.name[:19]}..."
    if Path(os.path.realpath(path)).parent != Path(os.path.realpath(models / "blobs")):
        return "has a blob that is a link out of the store"
    if problem := problem_with(path):
        return f"has a blob that {problem}"
    if isinstance(size, int) and size != size_of(path):
        return f"has a blob of {size_of(path)} bytes, its manifest says {size}"
    return ""


def _dicts(value: object) -> Iterator[Mapping[str, Any]]:
    yield from (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()
