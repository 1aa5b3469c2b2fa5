"""The parameters of a chat, beside those of every generation."""
# This module evaluates its annotations, because they are the table: it has no
# `from __future__ import annotations`.

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from unladen.parameters.kinds import Either, Flag, Kind, OrNone, Real, Text, Whole
from unladen.parameters.sampling import GENERATION, GenerationNames
from unladen.parameters.table import Parameter as P
from unladen.parameters.table import Table

EFFORTS = ("low", "medium", "high")
"""How hard a model that knows efforts thinks."""
WAYS = ("error", "shift", "drop_middle")
"""What may happen to a conversation that the context doesn't hold."""


class _OneOf(Kind):
    """One of a few words."""

    def __init__(self, *choices: str) -> None:
        super().__init__(", ".join(repr(word) for word in choices[:-1]) + f" or {choices[-1]!r}")
        self._choices = choices

    def of(self, name: str, value: object) -> str:
        """The same."""
        if not isinstance(value, str) or value not in self._choices:
            self.refuse(name, value)
        return value


class _Function(Kind):
    """A function."""

    def __init__(self) -> None:
        super().__init__("a function")

    def of(self, name: str, value: object) -> object:
        """The same."""
        if not callable(value):
            self.refuse(name, value)
        return value


class _Variables(Kind):
    """Variables by name."""

    def __init__(self) -> None:
        super().__init__("a dict of variables by name")

    def of(self, name: str, value: object) -> dict[str, Any]:
        """A new dict."""
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            self.refuse(name, value)
        return dict(value)


class _Documents(Kind):
    """A list of documents."""

    def __init__(self) -> None:
        super().__init__("a list of dicts or texts")

    def of(self, name: str, value: object) -> list[Any]:
        """A new list."""
        if not isinstance(value, list | tuple):
            self.refuse(name, value)
        return [*value]


class ChatNames(GenerationNames, total=False):
    """Parameters of :meth:`unladen.Model.chat` and similar methods that are given by name."""

    reasoning: Annotated[bool | str | None, P(
        OrNone(Either(Flag(), _OneOf(*EFFORTS))), None,
        "whether the model thinks before it answers, or how hard; None: as the template says")]
    """Whether a model that can shall think before it answers; or "low", "medium", "high", for
    models that know efforts. Default None: as the template says."""
    reasoning_tokens: Annotated[int | None, P(
        OrNone(Whole(0)), None,
        "tokens after which the reasoning ends and the answer begins; None: no limit")]
    """Tokens after which the reasoning is ended and the answer begins. Default None: no limit."""
    reasoning_seconds: Annotated[float | None, P(
        OrNone(Real(0)), None,
        "seconds after which the reasoning ends and the answer begins; None: no limit")]
    """Seconds after which the reasoning is ended and the answer begins. Default None: no limit."""
    on_overflow: Annotated[str | Callable[..., Any], P(
        Either(_OneOf(*WAYS), _Function()), "error",
        "what happens to a conversation that the context doesn't hold: error, shift, drop_middle, "
        "or a function")]
    """What happens to a conversation that the context doesn't hold: "error", the default; "shift"
    drops the oldest turns; "drop_middle" keeps the first turn too; or a function of the messages,
    the tokens of their prompt and the most that fit, which returns fewer messages."""
    continues: Annotated[bool, P(
        Flag(), False, "the last message is the beginning of the answer")]
    """The last message is the beginning of the answer, which goes on there. Default False."""
    template: Annotated[str | None, P(
        OrNone(Text("Jinja text or the name of a format", filled=True)), None,
        "a chat template, or a format's name, in place of the file's")]
    """A chat template as Jinja text, or the name of a format such as "chatml", in place of the
    file's. Default None."""
    template_variables: Annotated[Mapping[str, Any] | None, P(
        OrNone(_Variables()), None, "more variables of the template")]
    """More variables of the template, such as ``enable_thinking`` or ``strftime_now``."""
    documents: Annotated[Sequence[Any] | None, P(
        OrNone(_Documents()), None, "documents for templates that answer from them")]
    """Documents for templates that answer from them. Default None."""


CHAT = Table.of("chat", ChatNames, GENERATION.others)


def chat(call: str) -> Table:
    """The parameters of a chat, for errors that name the function ``call``."""
    return Table(call, CHAT.parameters, CHAT.others)
