"""Ollama's models: manifests that name blobs by their digests."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from unladen.errors import UnladenError
from unladen.hub.preset import Preset, messages_in
from unladen.hub.stores._disk import home_path, printable, text_of
from unladen.hub.stores._ollama_files import (
    Layer,
    Name,
    config_of,
    layers_of,
    manifest_of,
    manifests,
)
from unladen.hub.stores._repos import is_inside
from unladen.hub.stores.base import Store, StoredModel

_SERVICE: Final = Path("/usr/share/ollama/.ollama/models")
"""Where Ollama keeps models if it runs as a service of Linux."""
_TEXTS: Final = ("template", "prompt", "system", "params", "messages", "license")
"""Layers that hold text. ``prompt`` is an old name of ``template``."""


def _folders() -> list[Path]:
    """The folders with blobs and manifests."""
    if named := os.environ.get("OLLAMA_MODELS"):
        return [home_path(named)]
    home = home_path("~/.ollama/models")
    return [home, _SERVICE] if sys.platform == "linux" else [home]


class Ollama(Store):
    """Models by names such as llama3.2:1b. Their templates, system messages and parameters are
    layers beside the weights."""

    program: ClassVar[str] = "Ollama"
    order: ClassVar[int] = 3

    def models(self) -> Iterator[StoredModel]:
        for folder in _folders():
            for name, path in manifests(folder):
                yield self._model(folder, name, path)

    def _model(self, folder: Path, name: Name, path: Path) -> StoredModel:
        model = StoredModel(name.short, path, self.program, names=name.others, record=path)
        manifest = manifest_of(folder, path)
        if manifest is None:
            return dataclasses.replace(model, problem="has a manifest that isn't one")
        layers = layers_of(folder, manifest)
        weights = next((layer for layer in reversed(layers) if layer.kind == "model"), None)
        if weights is None:
            return dataclasses.replace(model, problem=_why_no_weights(folder, manifest, layers))
        if weights.path is None:
            return dataclasses.replace(model, problem=weights.problem)
        unknown = next((layer.problem for layer in layers if not layer.kind), "")
        return dataclasses.replace(
            model, path=weights.path, files=(weights.path,), size=weights.size,
            problem=weights.problem or unknown, digests={weights.path: weights.digest},
            adapters=tuple(each.path for each in layers if each.kind == "adapter" and each.path),
            projectors=tuple(each.path for each in layers if each.kind == "projector"
                             and each.path and not each.problem))

    def preset(self, model: StoredModel) -> Preset:
        """See :meth:`Store.preset`. Raises :class:`UnladenError` where a layer can't be read.

        A format that is built into Ollama is the one that the file's own template writes, so that
        a model with such a format has its stored template only for files without one.
        """
        folder = _folder_of(model)
        manifest = manifest_of(folder, model.record) if folder and model.record else None
        if folder is None or manifest is None:
            raise UnladenError(f"the manifest of {model.name} in Ollama's store has changed",
                               hint="list the models again")
        texts = [(layer.kind, _text_of(model, layer)) for layer in layers_of(folder, manifest)
                 if layer.kind in _TEXTS]
        kinds = dict(texts)
        renderer = config_of(folder, manifest).get("renderer")
        return Preset(
            template=kinds.get("template", kinds.get("prompt", "")),
            yields=isinstance(renderer, str) and bool(renderer), system=kinds.get("system", ""),
            messages=messages_in(printable(model.name),
                                 _of_type(model, list, kinds.get("messages", "[]"))),
            parameters=_of_type(model, dict, kinds.get("params", "{}")),
            licenses=tuple(text for kind, text in texts if kind == "license"))

    def removed_with(self, model: StoredModel) -> list[Path]:
        folder = _folder_of(model)
        if folder is None or model.record is None or not is_inside(model.record, folder):
            raise UnladenError(f"{model.name} lies outside of Ollama's store",
                               hint="remove it with Ollama: ollama rm")
        used = {path for _, record in manifests(folder) if record != model.record
                for path in _blobs(folder, record)}
        return [model.record, *(path for path in _blobs(folder, model.record)
                                if path not in used and path.is_file())]


def _folder_of(model: StoredModel) -> Path | None:
    return next((folder for folder in _folders() if model.record
                 and model.record.is_relative_to(folder)), None)


def _blobs(folder: Path, record: Path) -> list[Path]:
    """The blobs of a manifest, its configuration included, each once."""
    manifest = manifest_of(folder, record) or {}
    told = [*manifest.get("layers", ()), manifest.get("config")]
    layers = layers_of(folder, {"layers": told})
    return list(dict.fromkeys(layer.path for layer in layers if layer.path))


def _why_no_weights(folder: Path, manifest: Mapping[str, Any], layers: Sequence[Layer]) -> str:
    if config_of(folder, manifest).get("remote_host"):
        return "runs on another machine: its weights aren't here"
    if any(layer.kind == "tensor" for layer in layers):
        return "has its weights as safetensors, not as GGUF"
    return "has a manifest without weights"


def _text_of(model: StoredModel, layer: Layer) -> str:
    text = None if layer.problem or layer.path is None else text_of(layer.path)
    if text is None:
        raise UnladenError(f"the {layer.kind} of {model.name} in Ollama's store can't be read"
                           + (f": the model {layer.problem}" if layer.problem else ""),
                           hint="pull the model again with Ollama")
    return text


def _of_type(model: StoredModel, kind: type, text: str) -> Any:
    """The JSON ``text``, which must be of type ``kind``, or null for an empty one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = ()
    if found is None:
        return kind()
    if not isinstance(found, kind):
        raise UnladenError(f"a layer of {model.name} in Ollama's store is malformed",
                           hint="pull the model again with Ollama")
    return found
