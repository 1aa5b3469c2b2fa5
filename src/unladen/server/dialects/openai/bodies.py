"""The fields of requests, and the parameters that they become.

Fields that aren't here are ignored, as OpenAI does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from unladen.server.faults import Fault

MAX_TOP = 20
"""The most alternatives of a token, as OpenAI has it."""
SEEDS = 2**64
"""The seeds that there are; others are taken modulo this."""


class StreamOptions(BaseModel):
    """Options of a stream."""

    model_config = ConfigDict(strict=True, extra="ignore")

    include_usage: bool | None = False


class Sampled(BaseModel):
    """What requests for texts have in common: OpenAI's names, and llama-server's beside them."""

    model_config = ConfigDict(strict=True, extra="ignore", protected_namespaces=())

    model: str = Field("", description="the model's name; empty: the first one")
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1)] | None = Field(
        None, description="answers to make; the server's setting max_answers bounds them")
    temperature: Annotated[float, Field(ge=0, le=1e6)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: int | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    typical_p: Annotated[float, Field(ge=0, le=1)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-100, le=100)] | None = None
    presence_penalty: Annotated[float, Field(ge=-100, le=100)] | None = None
    repeat_penalty: Annotated[float, Field(gt=0, le=100)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=100)] | None = None
    logit_bias: dict[str, float] | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    user: str | None = None
    ignore_eos: bool | None = None
    response_format: dict[str, Any] | None = None
    grammar: str | None = Field(None, description="a GBNF grammar of the answer")
    timeout: Annotated[float, Field(gt=0)] | None = Field(
        None, description="seconds after which the answer ends")

    def parameters(self) -> dict[str, Any]:
        """Parameters of :meth:`unladen.Model.generate`."""
        named = ("temperature", "top_p", "top_k", "min_p", "typical_p", "frequency_penalty",
                 "presence_penalty", "repeat_penalty", "ignore_eos")
        given = {name: value for name in named if (value := getattr(self, name)) is not None}
        if self.repeat_penalty is None and self.repetition_penalty is not None:
            given["repeat_penalty"] = self.repetition_penalty
        if self.stop:
            given["stop"] = [s for s in ([self.stop] if isinstance(self.stop, str) else self.stop)
                             if s]
        if self.seed is not None:
            given["seed"] = self.seed if self.seed == -1 else self.seed % SEEDS
        if self.logit_bias:
            given["logit_bias"] = _biases(self.logit_bias)
        if form := self.form():
            given["response_format"] = form
        return given

    def form(self) -> dict[str, Any] | None:
        """The form of the answer; None for any text."""
        form = self.response_format
        if form is not None and form.get("type") == "text":
            form = None
        if self.grammar is not None:
            if form is not None:
                raise Fault("bad_request", "both grammar and response_format are given",
                            hint="give one of them", param="grammar")
            return {"type": "grammar", "grammar": self.grammar}
        if form is not None and form.get("type") not in ("json_object", "json_schema", "grammar"):
            raise Fault("bad_request", f"response_format has the unknown type "
                        f"{str(form.get('type'))[:40]!r}", param="response_format.type",
                        hint="there are text, json_object and json_schema")
        return form

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with a chunk of usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class Function(BaseModel):
    """A function that the model may call."""

    model_config = ConfigDict(strict=True, extra="allow")

    name: Annotated[str, Field(min_length=1, max_length=256)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(BaseModel):
    """A tool; those of other types than function are skipped."""

    model_config = ConfigDict(strict=True, extra="allow")

    type: str = "function"
    function: Function | None = None


class ChatBody(Sampled):
    """The body of ``/v1/chat/completions``."""

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    tools: list[Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: Annotated[int, Field(ge=-1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=-1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP)] | None = None
    reasoning_effort: str | None = None
    thinking_budget_tokens: Annotated[int, Field(ge=-1)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    modalities: list[str] | None = None
    continue_final_message: bool | None = Field(
        None, description="the last message is the beginning of the answer, as in vLLM")
    audio: dict[str, Any] | None = None
    web_search_options: dict[str, Any] | None = None
    functions: list[Any] | None = None
    function_call: str | dict[str, Any] | None = None


class CompletionBody(Sampled):
    """The body of ``/v1/completions``."""

    prompt: str | list[int] | list[str] | list[list[int]] = ""
    suffix: str | None = None
    echo: bool | None = None
    best_of: int | None = None
    max_tokens: Annotated[int, Field(ge=-1)] | None = 16
    logprobs: Annotated[int, Field(ge=0, le=MAX_TOP)] | None = None


class EmbeddingBody(BaseModel):
    """The body of ``/v1/embeddings``."""

    model_config = ConfigDict(strict=True, extra="ignore")

    model: str = ""
    input: str | list[int] | list[str] | list[list[int]]
    encoding_format: Annotated[str, Field(pattern="^(float|base64)$")] | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None


def _biases(given: Mapping[str, float]) -> dict[str, float]:
    for token in given:
        if not (token.isascii() and token.isdigit()):
            raise Fault("bad_request", f"logit_bias names {token[:40]!r}, which is no token's id",
                        hint='pass numbers by token id, as {"13": -2.5}', param="logit_bias")
    return dict(given)
