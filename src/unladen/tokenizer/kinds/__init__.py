"""The kinds of tokenizer: one file each, found by scanning this folder."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from unladen.discover import Found, by_class, search
from unladen.errors import UnsupportedModel
from unladen.tokenizer.kinds.base import Kind

__all__ = ["Kind", "get", "registry"]


@functools.cache
def found() -> Found[type[Kind]]:
    """Every kind by the values of ``tokenizer.ggml.model`` that mean it."""
    return search("unladen.tokenizer.kinds", "tokenizers",
                  by_class(Kind, lambda kind: map(str, kind.names)))


@functools.cache
def registry() -> Mapping[str, type[Kind]]:
    """Every kind by the values of ``tokenizer.ggml.model`` that mean it."""
    return found().named()


def get(name: str) -> type[Kind]:
    """The kind that ``tokenizer.ggml.model`` calls ``name``; raises UnsupportedModel."""
    try:
        return registry()[name]
    except KeyError:
        raise UnsupportedModel(f"tokenizer.ggml.model {name!r} isn't implemented", arch=name,
                               hint="known: " + ", ".join(sorted(registry()))) from None
