"""Prompt formats by name, for models whose files have no template.

Each file of this folder is a format: ``TEMPLATE`` is Jinja text of our own, ``NAMES`` are its
names if the file's name isn't one.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Mapping
from types import ModuleType

from unladen.chat.template import ChatTemplate
from unladen.discover import name_of, search
from unladen.errors import InvalidArgument


@functools.cache
def registry() -> Mapping[str, str]:
    """The template of every format by name."""
    return dict(sorted(search("unladen.chat.formats", "formats", _formats).named().items()))


def _formats(module: ModuleType) -> Iterator[tuple[Hashable, str]]:
    template = getattr(module, "TEMPLATE", None)
    if isinstance(template, str):
        for name in getattr(module, "NAMES", (name_of(module),)):
            yield name, template


def named(name: str) -> ChatTemplate:
    """The template of the format called ``name``. Raises
    :class:`~unladen.errors.InvalidArgument` with the names of all formats."""
    source = registry().get(name)
    if source is None:
        raise InvalidArgument(f"there is no chat format {name!r}",
                              hint=f"the formats are {', '.join(registry())}")
    return ChatTemplate(source)
