"""The fields of requests. Fields that aren't here are ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from unladen.server.dialects.openai.bodies import MAX_TOP

_LOOSE = ConfigDict(strict=True, extra="ignore", protected_namespaces=())


class Reasoning(BaseModel):
    """How hard the model thinks."""

    model_config = _LOOSE

    effort: str | None = None
    summary: str | None = None


class TextOptions(BaseModel):
    """The form of the answer's text."""

    model_config = _LOOSE

    format: dict[str, Any] | None = None
    verbosity: str | None = None


class ResponsesBody(BaseModel):
    """The body of ``/v1/responses``."""

    model_config = _LOOSE

    model: str = ""
    input: str | list[dict[str, Any]] = Field(default_factory=list)
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = True
    stream: bool | None = False
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = True
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=1e6)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP)] | None = None
    include: list[str] | None = None
    reasoning: Reasoning | None = None
    text: TextOptions | None = None
    truncation: Literal["auto", "disabled"] | None = None
    background: bool | None = False
    conversation: Any = None
    prompt: Any = None
    metadata: dict[str, Any] | None = None
    user: str | None = None
    seed: int | None = None
