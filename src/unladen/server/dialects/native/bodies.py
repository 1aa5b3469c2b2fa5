"""The fields of requests. Fields that aren't here are ignored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from unladen.server.faults import Fault

_LOOSE = ConfigDict(strict=True, extra="ignore", protected_namespaces=())
MAX_PROBABILITIES = 100
"""The most alternatives of a token."""
SEEDS = 2**64
"""The seeds that there are; others are taken modulo this."""


class Named(BaseModel):
    """A body that may name a model; without a name the first model is meant."""

    model_config = _LOOSE

    model: str = ""


class Sampled(Named):
    """How tokens are chosen: llama-server's names."""

    n_predict: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    dynatemp_range: float | None = None
    dynatemp_exponent: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    top_n_sigma: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: list[str] | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    min_keep: int | None = None
    seed: int | None = None
    ignore_eos: bool | None = None
    logit_bias: list[Any] | dict[str, float] | None = None
    samplers: list[str] | None = None
    stop: str | list[str] | None = None
    n_probs: Annotated[int, Field(ge=0, le=MAX_PROBABILITIES)] | None = None
    grammar: str | None = None
    json_schema: dict[str, Any] | None = None
    stream: bool | None = False
    t_max_predict_ms: Annotated[int, Field(ge=0)] | None = None

    def parameters(self) -> dict[str, Any]:
        """Parameters of :meth:`unladen.Model.generate`."""
        same = ("temperature", "top_k", "top_p", "min_p", "typical_p", "top_n_sigma",
                "xtc_probability", "xtc_threshold", "repeat_penalty", "presence_penalty",
                "frequency_penalty", "dry_multiplier", "dry_base", "dry_allowed_length",
                "dry_penalty_last_n", "dry_sequence_breakers", "mirostat", "mirostat_tau",
                "mirostat_eta", "min_keep", "ignore_eos")
        given = {name: value for name in same if (value := getattr(self, name)) is not None}
        for name, ours in (("repeat_last_n", "penalty_last_n"), ("samplers", "order"),
                           ("dynatemp_range", "dynatemp_range"),
                           ("dynatemp_exponent", "dynatemp_exponent")):
            if (value := getattr(self, name)) is not None:
                given[ours] = value
        limit = self.n_predict if self.n_predict is not None else self.max_tokens
        if limit is not None and limit >= 0:
            given["max_tokens"] = limit
        if self.seed is not None:
            given["seed"] = self.seed if self.seed == -1 else self.seed % SEEDS
        if self.stop:
            stops = [self.stop] if isinstance(self.stop, str) else self.stop
            given["stop"] = [stop for stop in stops if stop]
        if self.n_probs:
            given["logprobs"] = self.n_probs
        if self.logit_bias:
            given["logit_bias"] = biases(self.logit_bias)
        if self.grammar and self.json_schema is not None:
            raise Fault("bad_request", "both grammar and json_schema are given", param="grammar")
        if self.grammar:
            given["response_format"] = {"type": "grammar", "grammar": self.grammar}
        if self.json_schema is not None:
            given["response_format"] = {"type": "json_schema", "schema": self.json_schema}
        return given


class CompletionBody(Sampled):
    """The body of ``/completion``."""

    prompt: str | list[int] = ""
    n: Annotated[int, Field(ge=1, le=1)] | None = None


class InfillBody(Sampled):
    """The body of ``/infill``. ``prompt`` is written after the prefix."""

    input_prefix: str = ""
    input_suffix: str = ""
    prompt: str = ""
    input_extra: list[dict[str, Any]] | None = None


class TokenizeBody(Named):
    """The body of ``/tokenize``."""

    content: str
    add_special: bool | None = False
    parse_special: bool | None = True
    with_pieces: bool | None = False


class DetokenizeBody(Named):
    """The body of ``/detokenize``."""

    tokens: list[int]


class TemplateBody(Named):
    """The body of ``/apply-template``."""

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    tools: list[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class RankBody(Named):
    """The body of ``/rerank``."""

    query: str
    documents: list[str] | None = None
    texts: list[str] | None = None
    top_n: Annotated[int, Field(ge=1)] | None = None


class EmbeddingBody(Named):
    """The body of ``/embedding``."""

    content: str | list[str] | None = None
    input: str | list[str] | None = None


def biases(given: Sequence[Any] | dict[str, float]) -> dict[str, float]:
    """Biases by token id. A list has pairs of an id and a number; false bans the token."""
    pairs = [*given.items()] if isinstance(given, dict) else [*given]
    found: dict[str, float] = {}
    for i, pair in enumerate(pairs):
        token, amount = pair if isinstance(pair, list | tuple) and len(pair) == 2 else (None, None)
        amount = -1e6 if amount is False else amount
        is_id = (isinstance(token, int) and not isinstance(token, bool)) or (
            isinstance(token, str) and token.isascii() and token.isdigit())
        if not is_id or isinstance(amount, bool) or not isinstance(amount, int | float):
            raise Fault("bad_request", "a bias is a token's id and a number or false",
                        param=f"logit_bias.{i}")
        found[str(token)] = float(amount)
    return found
