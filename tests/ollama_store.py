"""Writes models into a store in Ollama's layout."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

IMAGE = "application/vnd.ollama.image."


def add(root: Path, name: str, weights: Path, *, config: Mapping[str, Any] | None = None,
        template: str = "", system: str = "", params: Mapping[str, Any] | None = None,
        messages: Sequence[Mapping[str, str]] = (), adapter: bytes = b"") -> Path:
    """Add the model ``name``, such as "talk:1b", to the store ``root``, the folder that
    OLLAMA_MODELS names. Returns its manifest."""
    def blob(data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        path = root / "blobs" / f"sha256-{digest}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    texts = {"adapter": adapter, "template": template.encode(), "system": system.encode(),
             "params": json.dumps(params).encode() if params else b"",
             "messages": json.dumps([*messages]).encode() if messages else b""}
    layers = [{"mediaType": f"{IMAGE}model", **blob(weights.read_bytes())}]
    layers += [{"mediaType": IMAGE + kind, **blob(data)} for kind, data in texts.items() if data]
    model, _, tag = name.partition(":")
    path = root / "manifests" / "registry.ollama.ai" / "library" / model / (tag or "latest")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {"mediaType": "application/vnd.docker.container.image.v1+json",
                   **blob(json.dumps({"model_format": "gguf", **(config or {})}).encode())},
        "layers": layers}))
    return path
