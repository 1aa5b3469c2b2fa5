"""The result of a chat: what the model answered, and what that took."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from unladen.chat.messages import Message, ToolCall
from unladen.types import SHOWN_TEXT, StopReason, Timings, TokenLogprob, Usage

ChatStopReason = StopReason | Literal["tool_calls"]
"""Why an answer ended: as for any text, or because the model calls tools and waits for results."""


@dataclass(frozen=True, slots=True, repr=False)
class ChatCompletion:
    """What the model answered."""

    message: Message
    """The answer in its parts, as the next turn's messages take it."""
    stop_reason: ChatStopReason
    usage: Usage
    timings: Timings
    tokens: list[int]
    """The ids that the model wrote, without an end token."""
    parsed: Any = None
    """The answer as a value where ``response_format`` asked for one and the answer is complete:
    of the Python type that was given, else as :func:`json.loads` reads it."""
    logprobs: list[TokenLogprob] | None = None
    notes: tuple[str, ...] = ()
    """What was changed in the messages because the template lacks a role, and what arguments of
    calls aren't held to: a sentence each."""
    others: tuple[ChatCompletion, ...] = field(default=())
    """The other answers where ``n`` of them were asked for."""

    @property
    def text(self) -> str:
        """The answer without reasoning and calls."""
        return self.message.content

    @property
    def reasoning(self) -> str:
        """What the model wrote for itself before the answer."""
        return self.message.reasoning

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of tools in the answer, oldest first."""
        return self.message.tool_calls

    @property
    def choices(self) -> tuple[ChatCompletion, ...]:
        """All answers: this one and :attr:`others`."""
        return (self, *self.others)

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= SHOWN_TEXT else f"{self.text[:SHOWN_TEXT - 3]}..."
        calls = "".join(f", calls {call.name}" for call in self.tool_calls)
        return (f"<ChatCompletion {text!r}{calls}: {len(self.tokens)} tokens, ended by "
                f"{self.stop_reason}>")
