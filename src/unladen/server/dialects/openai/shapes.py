"""Parts of answers that several routes share."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

from unladen.server.events import Ended

REASONS = {"end": "stop", "stop": "stop", "length": "length", "context": "length",
           "tool_calls": "tool_calls", "deadline": "length", "cancelled": "stop"}
"""OpenAI's words for why an answer ended."""

TokenList = list[tuple[int, str, float | None, list[tuple[int, str, float]]]]
"""The tokens of :class:`~unladen.server.events.Probabilities`."""


def new_id(prefix: str) -> str:
    """An id for an answer."""
    return f"{prefix}-{secrets.token_urlsafe(18)}"


def now() -> int:
    """Seconds since 1970."""
    return int(time.time())


def usage(ends: Sequence[Ended]) -> dict[str, Any]:
    """What the answers of one prompt took; the prompt counts once."""
    n_prompt = max((end.n_prompt for end in ends), default=0)
    n_cached = min((end.n_cached for end in ends), default=0)
    n_completion = sum(end.n_completion for end in ends)
    return {
        "prompt_tokens": n_prompt, "completion_tokens": n_completion,
        "total_tokens": n_prompt + n_completion,
        "prompt_tokens_details": {"cached_tokens": n_cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": sum(end.n_reasoning for end in ends), "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}}


def sum_usage(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The usage of several prompts together."""
    total: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            if isinstance(value, dict):
                total[name] = sum_usage([total.get(name, {}), value])
            else:
                total[name] = total.get(name, 0) + value
    return total


def noted(fields: dict[str, Any], notes: Sequence[str]) -> dict[str, Any]:
    """``fields`` with ``notes`` on what was left out or changed, where there are some. Clients
    ignore the field."""
    return {**fields, "notes": [*notes]} if notes else fields


def timings(end: Ended) -> dict[str, float]:
    """Times as llama-server gives them, in milliseconds and tokens a second."""
    n_read = end.n_prompt - end.n_cached
    return {
        "cache_n": end.n_cached, "prompt_n": n_read, "prompt_ms": end.prompt_s * 1e3,
        "prompt_per_second": n_read / end.prompt_s if end.prompt_s > 0 else 0.0,
        "predicted_n": end.n_completion, "predicted_ms": end.completion_s * 1e3,
        "predicted_per_second": (max(0, end.n_completion - 1) / end.completion_s
                                 if end.completion_s > 0 else 0.0),
        "draft_n": end.n_drafted, "draft_n_accepted": end.n_accepted}


def chat_logprobs(tokens: TokenList) -> dict[str, Any]:
    """``logprobs`` of a choice in a chat."""
    return {"content": [{**_token(text, logprob or 0.0),
                         "top_logprobs": [_token(other, value) for _, other, value in top]}
                        for _, text, logprob, top in tokens], "refusal": None}


def _token(latin: str, logprob: float) -> dict[str, Any]:
    raw = latin.encode("latin-1")
    return {"token": raw.decode("utf-8", "replace"), "logprob": logprob, "bytes": [*raw]}


def text_logprobs(tokens: TokenList, offset: int) -> dict[str, Any]:
    """``logprobs`` of a choice in a completion, the old shape. ``offset``: characters of text
    before these tokens."""
    texts = [text.encode("latin-1").decode("utf-8", "replace") for _, text, _, _ in tokens]
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    return {
        "tokens": texts, "token_logprobs": [logprob for _, _, logprob, _ in tokens],
        "top_logprobs": [None if logprob is None else
                         {other.encode("latin-1").decode("utf-8", "replace"): value
                          for _, other, value in top} for _, _, logprob, top in tokens],
        "text_offset": offsets}
