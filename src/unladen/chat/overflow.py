"""What to do with a conversation that the context doesn't hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from unladen.chat.prompt import Prompt
from unladen.errors import ContextOverflow

Messages: TypeAlias = Sequence[Mapping[str, Any]]
"""A conversation."""
Shorten: TypeAlias = Callable[[list[dict[str, Any]], int, int], Messages]
"""A caller's way: from the messages, the number of tokens of their prompt and the most that fit to
messages whose prompt is shorter."""
OnOverflow: TypeAlias = Literal["error", "shift", "drop_middle"] | Shorten
"""What happens to a conversation that is too long."""

def fitting(messages: list[dict[str, Any]], way: OnOverflow, n_most: int,
            make: Callable[[Messages], Prompt]) -> tuple[Prompt, int]:
    """The prompt of ``messages``, or of what ``way`` leaves of them so that it has at most
    ``n_most`` tokens; and how many tokens that leaves out. ``make`` makes a prompt. Raises
    :class:`ContextOverflow`."""
    whole = make(messages)
    n = len(whole.ids)
    if n <= n_most:
        return whole, 0
    if way == "error":
        raise ContextOverflow(
            f"the conversation has {n} tokens, and {n_most} fit", n_tokens=n, limit=n_most,
            hint='load the model with a larger context_size, or pass on_overflow="shift"')
    if not isinstance(way, str):
        chosen = make(way([*messages], n, n_most))
        if len(chosen.ids) > n_most:
            raise ContextOverflow(f"on_overflow returned a conversation of {len(chosen.ids)} "
                                  f"tokens, and {n_most} fit", n_tokens=len(chosen.ids),
                                  limit=n_most, hint="drop more")
        return chosen, n - len(chosen.ids)
    for shorter in _shorter(messages, way):
        prompt = make(shorter)
        if len(prompt.ids) <= n_most:
            return prompt, n - len(prompt.ids)
    raise ContextOverflow(
        f"the conversation has {n} tokens, {n_most} fit, and its last turn alone is longer",
        n_tokens=n, limit=n_most,
        hint="shorten the last message, or load the model with a larger context_size")


def _shorter(messages: list[dict[str, Any]], way: str) -> Iterator[list[dict[str, Any]]]:
    """Conversations with one turn less each. A system message at the beginning and the last turn
    stay; ``drop_middle`` keeps the first turn as well, as long as that is possible."""
    n_first = next((i for i, m in enumerate(messages) if m["role"] not in ("system", "developer")),
                   len(messages))
    system, rest = messages[:n_first], messages[n_first:]
    begins = [i for i, m in enumerate(rest) if m["role"] == "user"] or [0]
    turns = [rest[a:b] for a, b in zip(begins, [*begins[1:], len(rest)], strict=True)]
    turns[0] = rest[:begins[0]] + turns[0]
    n_kept = 1 if way == "drop_middle" and len(turns) > 1 else 0
    for n_dropped in range(1, len(turns) - n_kept):
        kept = turns[:n_kept] + turns[n_kept + n_dropped:]
        yield system + [message for turn in kept for message in turn]
    if n_kept:
        yield system + turns[-1]
