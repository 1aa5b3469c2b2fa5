"""What a client asks of a model, the same for all dialects. Everything here becomes JSON."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """An answer in a conversation.

    * ``messages``: as OpenAI's clients send them; :func:`unladen.chat.reading.read_messages` reads
      them. ``reasoning_content`` of earlier answers is taken back.
    * ``tools``: OpenAI's tool definitions. ``tool_choice``: "none", "auto", "required", or a name.
    * ``parallel_calls``: whether an answer may have several calls.
    * ``n``: answers to make.
    * ``parameters``: those of :meth:`unladen.Model.chat` by name (``temperature``, ``max_tokens``,
      ``stop``, ``seed``, ``logprobs``, ``reasoning``, ``response_format``, ...), JSON values.
      ``response_format`` may also be ``{"type": "grammar", "grammar": GBNF}``.
    """

    code: ClassVar[str] = "chat"
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = field(default_factory=list)
    tool_choice: str = "auto"
    parallel_calls: bool = True
    n: int = 1
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A continuation of ``prompt``, a text or token ids. ``n`` continuations are made.

    ``suffix``: the text after the gap that is to be filled; None: no gap. ``echo``: the events
    begin with the prompt's own text, with its log-probabilities if ``parameters`` ask for them.
    ``parameters``: those of :meth:`unladen.Model.generate` by name; ``response_format`` as in
    :class:`Chat`.
    """

    code: ClassVar[str] = "text"
    prompt: str | list[int]
    suffix: str | None = None
    echo: bool = False
    n: int = 1
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed:
    """Embeddings of ``inputs``, each a text or token ids. ``dimensions``: the first so many
    numbers, normalized again; None: all. The result is :class:`~unladen.server.events.Vectors`."""

    code: ClassVar[str] = "embed"
    inputs: list[str | list[int]]
    dimensions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """How well each of ``documents`` answers ``query``. The result is
    :class:`~unladen.server.events.Scores`."""

    code: ClassVar[str] = "rank"
    query: str
    documents: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The tokens of the prompt that ``chat`` would have, and its text. Nothing is computed. The
    result is :class:`~unladen.server.events.Prompt`."""

    code: ClassVar[str] = "count"
    chat: Chat


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenize:
    """The tokens of ``text``. ``begins``: with the marks that a prompt begins with. ``special``:
    names of control tokens in it are those tokens. The result is
    :class:`~unladen.server.events.Tokens`."""

    code: ClassVar[str] = "tokenize"
    text: str
    begins: bool = False
    special: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Detokenize:
    """The text of ``ids``. The result is :class:`~unladen.server.events.Tokens`, too."""

    code: ClassVar[str] = "detokenize"
    ids: list[int]


Asked: TypeAlias = Chat | Text | Embed | Rank | Count | Tokenize | Detokenize
"""One of the things that a model can be asked."""

KINDS: dict[str, type[Asked]] = {
    kind.code: kind for kind in (Chat, Text, Embed, Rank, Count, Tokenize, Detokenize)}
"""The kinds by the name that they have between processes."""


def pack(asked: Asked) -> dict[str, Any]:
    """``asked`` as JSON. It shares lists and objects with ``asked``: a copy of a long conversation
    would hold up all requests."""
    if isinstance(asked, Count):
        return {"kind": asked.code, "chat": _fields_of(asked.chat)}
    return {"kind": asked.code, **_fields_of(asked)}


def _fields_of(asked: Asked) -> dict[str, Any]:
    return {each.name: getattr(asked, each.name) for each in fields(asked)}


def unpack(packed: dict[str, Any]) -> Asked:
    """What :func:`pack` made JSON of."""
    given = dict(packed)
    kind = given.pop("kind")
    if kind == "count":
        return Count(chat=Chat(**given["chat"]))
    return KINDS[kind](**given)
