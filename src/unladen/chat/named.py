"""The chat templates of a file: one by default, and others for tools or documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from unladen.chat.formats import registry
from unladen.chat.template import ChatTemplate
from unladen.errors import InvalidArgument, TemplateError

KEY: Final = "tokenizer.chat_template"
"""The key of a file's default template. Those with a name have the name after a dot."""
DEFAULT: Final = "default"
"""The name of the template that is used for conversations without tools and documents."""
MAX_TEMPLATES: Final = 64
"""The most templates with a name that are read from a file."""


class ChatTemplates:
    """Templates by name, each compiled when it is first used. Threads may share them.

    ``sources``: the Jinja text of each. The one named "default" is for conversations without tools.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.sources = dict(sources)

    @staticmethod
    def from_metadata(metadata: Mapping[str, Any]) -> ChatTemplates:
        """The templates of a file with this ``metadata``, as :mod:`unladen.gguf` reads it. Keys
        whose value isn't a text are an error: :class:`~unladen.errors.TemplateError`."""
        found: dict[str, str] = {}
        for key in metadata:
            if key != KEY and not key.startswith(f"{KEY}."):
                continue
            source = metadata[key]
            if not isinstance(source, str):
                raise TemplateError(f"{key} isn't a text", hint="the file is damaged or from an "
                                    "unknown converter")
            if len(found) < MAX_TEMPLATES:
                found[key[len(KEY) + 1:] or DEFAULT] = source
        return ChatTemplates(found)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all templates."""
        return tuple(self.sources)

    def named(self, name: str) -> ChatTemplate:
        """The template called ``name``. Raises :class:`~unladen.errors.InvalidArgument` if there is
        none, and :class:`~unladen.errors.TemplateError` if it is malformed."""
        if name not in self.sources:
            raise InvalidArgument(f"there is no chat template {name!r}",
                                  hint=f"the file has {', '.join(self.names) or 'none'}")
        return ChatTemplate(self.sources[name])

    def chosen(self, tools: Sequence[Any] | None = None, documents: Sequence[Any] | None = None
               ) -> ChatTemplate:
        """The template for a conversation with these ``tools`` and ``documents``: ``tool_use``,
        ``rag`` or the default. Raises :class:`~unladen.errors.TemplateError` if there is none."""
        wanted = [*(["tool_use"] if tools else []), *(["rag"] if documents else []), DEFAULT]
        name = next((name for name in wanted if name in self.sources), None)
        if name is None:
            others = f"it has {', '.join(self.names)}; " if self.sources else ""
            raise TemplateError("the model's file has none",
                                hint=f"{others}name a format: {', '.join(registry())}")
        return self.named(name)
