"""What the visitors of a server ask: sound requests of every dialect, drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

CHAT: Final = "tiny-chat"
"""The model that chats; nobody unloads it."""
STORY: Final = "tiny"
"""The model that writes stories; nobody unloads it."""
COMING: Final = "coming"
"""The model that is loaded and unloaded all the time."""
ENCODER: Final = "encoder"
"""The model that makes embeddings."""
MOST_TOKENS: Final = 40
"""Tokens of an answer at most, beside :data:`FORM_TOKENS`."""
FORM_TOKENS: Final = 32
"""Tokens in which each form here has room, and a call. A request without this room is refused."""
WORDS: Final = ("the", "dog", "Lily", "ran", "to", "park", "and", "saw", "big", "tree", "é", "日本",
                "\U0001f600", "<|im_start|>", "</s>", "{", "\\", "\"", "\n", "  ", "0")
"""Prompts are made of these."""
SCHEMAS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 3},
    {"type": "string", "maxLength": 5}, {"type": "boolean"},
    {"anyOf": [{"type": "null"}, {"type": "number"}]})
GRAMMARS: Final = ('root ::= "yes" | "no"', "root ::= [a-c]+", 'root ::= "(" root? ")"')


@dataclass(frozen=True, slots=True)
class Ask:
    """``method`` and ``path``, with the JSON ``body``; None: it has none. ``ends``: what is in the
    last bytes of a whole stream; "" where the answer is one JSON value."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    ends: str = ""


def words(rng: random.Random, most: int = 30) -> str:
    """A text that hardly ever comes twice."""
    return " ".join([str(rng.randrange(10**6)), *rng.choices(WORDS, k=rng.randrange(1, most))])


def turns(rng: random.Random) -> list[dict[str, Any]]:
    """A conversation."""
    found: list[dict[str, Any]] = [{"role": "user", "content": words(rng)}]
    for _ in range(rng.randrange(2)):
        found += [{"role": "assistant", "content": words(rng)},
                  {"role": "user", "content": words(rng)}]
    return found


def function(rng: random.Random) -> dict[str, Any]:
    """A function that a model may call."""
    return {"name": rng.choice(["weather", "f", f"tool_{rng.randrange(50)}"]),
            "description": words(rng, 6), "parameters": {"type": "object", "properties": {
                "city": {"type": "string", "maxLength": 6}, "n": {"type": "integer"}}}}


def sampling(rng: random.Random) -> dict[str, Any]:
    """Some of the parameters that all texts have."""
    every: dict[str, Any] = {
        "temperature": rng.choice([0, 0.7, 1.5]), "top_p": rng.random(), "top_k": rng.randrange(50),
        "seed": rng.randrange(2**40), "repeat_penalty": 1.1, "stop": [words(rng, 2), "."],
        "logit_bias": {str(rng.randrange(300)): rng.uniform(-5, 5)}}
    return {name: every[name] for name in rng.sample(sorted(every), rng.randrange(4))}


def chat(rng: random.Random) -> Ask:
    """OpenAI's chat."""
    body: dict[str, Any] = {"model": rng.choice([CHAT, CHAT, CHAT, COMING]),
                            "messages": turns(rng), "max_tokens": rng.randrange(1, MOST_TOKENS),
                            "n": rng.choice([1, 1, 1, 2, 3]), **sampling(rng)}
    form = rng.randrange(6)
    if form == 0:
        body["tools"] = [{"type": "function", "function": function(rng)}]
        body["tool_choice"] = rng.choice(["auto", "none", "required"])
        body["max_tokens"] += FORM_TOKENS
    elif form == 1:
        body["max_tokens"] += FORM_TOKENS
        body["response_format"] = {"type": "json_schema", "json_schema": {
            "name": "form", "schema": rng.choice(SCHEMAS)}}
    elif form == 2:
        body["grammar"] = rng.choice(GRAMMARS)
    elif form == 3:
        body |= {"logprobs": True, "top_logprobs": rng.randrange(5)}
    return streams(rng, "/v1/chat/completions", body, "[DONE]", {
        "stream_options": {"include_usage": rng.random() < 0.5}})


def completion(rng: random.Random) -> Ask:
    """OpenAI's completions."""
    body = {"model": STORY, "prompt": [words(rng) for _ in range(rng.randrange(1, 4))],
            "max_tokens": rng.randrange(1, MOST_TOKENS), "n": rng.choice([1, 1, 2]),
            "echo": rng.random() < 0.3, **sampling(rng)}
    if rng.random() < 0.3:
        body["logprobs"] = rng.randrange(4)
    return streams(rng, "/v1/completions", body, "[DONE]")


def response(rng: random.Random) -> Ask:
    """OpenAI's responses."""
    body: dict[str, Any] = {
        "model": CHAT, "input": words(rng) if rng.random() < 0.5 else turns(rng),
        "max_output_tokens": rng.randrange(1, MOST_TOKENS), "store": rng.random() < 0.8,
        "instructions": words(rng, 5)}
    if rng.random() < 0.3:
        body["tools"] = [{"type": "function", **function(rng)}, {"type": "web_search"}]
    return streams(rng, "/v1/responses", body, "response.")


def messages(rng: random.Random) -> Ask:
    """Anthropic's messages."""
    body: dict[str, Any] = {
        "model": CHAT, "messages": turns(rng), "max_tokens": rng.randrange(1, MOST_TOKENS),
        "system": [{"type": "text", "text": words(rng, 8)}]}
    if rng.random() < 0.3:
        made = function(rng)
        body["tools"] = [{"name": made["name"], "input_schema": made["parameters"]}]
        body["tool_choice"] = {"type": rng.choice(["auto", "any"])}
        body["max_tokens"] += FORM_TOKENS
    if rng.random() < 0.2:
        return Ask("POST", "/v1/messages/count_tokens", {
            name: body[name] for name in ("model", "messages", "system")})
    return streams(rng, "/v1/messages", body, "message_stop")


def ollama(rng: random.Random) -> Ask:
    """Ollama's chat and generate."""
    body: dict[str, Any] = {
        "model": rng.choice([CHAT, CHAT, CHAT, COMING]),
        "options": {"num_predict": rng.randrange(1, MOST_TOKENS), "temperature": rng.random()}}
    if rng.random() < 0.2:
        body["format"] = rng.choice(SCHEMAS)
        body["options"]["num_predict"] += FORM_TOKENS
    if rng.random() < 0.5:
        return streams(rng, "/api/chat", {**body, "messages": turns(rng)}, '"done":true')
    return streams(rng, "/api/generate", {**body, "prompt": words(rng)}, '"done":true')


def native(rng: random.Random) -> Ask:
    """llama-server's completion and infill."""
    body = {"model": STORY, "prompt": words(rng), "n_predict": rng.randrange(1, 2 * MOST_TOKENS),
            **sampling(rng)}
    if rng.random() < 0.3:
        body |= {"dry_multiplier": 0.8, "dry_sequence_breakers": [words(rng, 3)]}
    if rng.random() < 0.3:
        body["n_probs"] = rng.randrange(1, 4)
    return streams(rng, "/completion", body, '"stop":true')


def question(rng: random.Random) -> Ask:
    """Something that is answered at once."""
    return rng.choice([
        Ask("POST", "/tokenize", {"model": STORY, "content": words(rng), "with_pieces": True}),
        Ask("POST", "/detokenize", {"model": STORY, "tokens": [rng.randrange(300)]}),
        Ask("POST", "/apply-template", {"model": CHAT, "messages": turns(rng)}),
        Ask("POST", "/v1/embeddings", {"model": ENCODER, "input": [words(rng, 5), "b"]}),
        Ask("POST", "/api/embed", {"model": ENCODER, "input": words(rng, 5)}),
        Ask("POST", "/v1/rerank", {"model": ENCODER, "query": "the", "documents": [
            words(rng, 5), "to"]}),
        Ask("POST", "/api/show", {"model": rng.choice([CHAT, STORY])}),
        *(Ask("GET", path) for path in (
            "/v1/models", f"/v1/models/{STORY}", "/models", "/props", "/slots", "/metrics",
            "/api/tags", "/api/ps", "/api/version", "/openapi.json"))])


def moving(rng: random.Random) -> Ask:
    """A request that loads or unloads the model that comes and goes."""
    return rng.choice([
        Ask("POST", "/models/load", {"model": COMING}),
        Ask("POST", "/models/unload", {"model": COMING}),
        Ask("POST", "/api/generate", {"model": COMING, "keep_alive": 0}),
        Ask("POST", "/api/generate", {"model": COMING, "keep_alive": "5s"})])


def streams(rng: random.Random, path: str, body: dict[str, Any], ends: str,
            more: dict[str, Any] | None = None) -> Ask:
    """A request whose answer is whole or a stream that ends with ``ends``. ``more``: fields of a
    stream alone."""
    if rng.random() < 0.5:
        return Ask("POST", path, {**body, "stream": True, **(more or {})}, ends)
    return Ask("POST", path, {**body, "stream": False})


TEXTS: Final[tuple[Callable[[random.Random], Ask], ...]] = (
    chat, chat, completion, response, messages, ollama, native)
"""Requests for texts, which take a while."""
EVERY: Final[tuple[Callable[[random.Random], Ask], ...]] = (*TEXTS, question, question)
"""All kinds of sound requests that change nothing."""
