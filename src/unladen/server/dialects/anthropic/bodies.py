"""The fields of requests. Fields that aren't here are ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

_LOOSE = ConfigDict(strict=True, extra="ignore", protected_namespaces=())


class Message(BaseModel):
    """A turn."""

    model_config = _LOOSE

    role: Literal["user", "assistant", "system"]
    content: str | list[dict[str, Any]]


class Tool(BaseModel):
    """A tool; those of the server's own types, such as web_search, are skipped."""

    model_config = _LOOSE

    name: Annotated[str, Field(min_length=1, max_length=256)]
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None


class ToolChoice(BaseModel):
    """Which tools are called."""

    model_config = _LOOSE

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(BaseModel):
    """Whether the model thinks, and how long."""

    model_config = _LOOSE

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Annotated[int, Field(ge=1)] | None = None


class OutputConfig(BaseModel):
    """The form of the answer, and how hard the model thinks."""

    model_config = _LOOSE

    format: dict[str, Any] | None = None
    effort: str | None = None


class CountBody(BaseModel):
    """The body of ``/v1/messages/count_tokens``."""

    model_config = _LOOSE

    model: Annotated[str, Field(min_length=1)]
    messages: Annotated[list[Message], Field(min_length=1)]
    system: str | list[dict[str, Any]] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: dict[str, Any] | None = None


class MessagesBody(CountBody):
    """The body of ``/v1/messages``."""

    max_tokens: Annotated[int, Field(ge=1)]
    stop_sequences: list[str] | None = None
    stream: bool | None = False
    temperature: Annotated[float, Field(ge=0, le=1e6)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: int | None = None
    mcp_servers: list[Any] | None = None
    container: Any = None
