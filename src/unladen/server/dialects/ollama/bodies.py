"""The fields of requests. Fields that aren't here are ignored."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

_LOOSE = ConfigDict(strict=True, extra="ignore", protected_namespaces=())


class Named(BaseModel):
    """A body that names a model, today as ``model``, earlier as ``name``."""

    model_config = _LOOSE

    model: str = ""
    name: str = ""

    def model_post_init(self, _: Any) -> None:
        """Take the old name."""
        self.model = self.model or self.name


class Asking(Named):
    """What chat and generate have in common."""

    stream: bool | None = True
    format: str | dict[str, Any] | None = None
    options: dict[str, Any] | None = None
    think: bool | str | None = None
    keep_alive: str | float | None = None


class ChatBody(Asking):
    """The body of ``/api/chat``."""

    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None


class GenerateBody(Asking):
    """The body of ``/api/generate``."""

    prompt: str = ""
    suffix: str | None = None
    system: str | None = None
    template: str | None = None
    raw: bool | None = False
    images: list[str] | None = None
    context: list[int] | None = None


class EmbedBody(Named):
    """The body of ``/api/embed``."""

    input: str | list[str]
    dimensions: int | None = Field(None, ge=1)
    keep_alive: str | float | None = None


class OldEmbedBody(Named):
    """The body of ``/api/embeddings``."""

    prompt: str
    keep_alive: str | float | None = None


class PullBody(Named):
    """The body of ``/api/pull``."""

    stream: bool | None = True


class CopyBody(BaseModel):
    """The body of ``/api/copy``."""

    model_config = _LOOSE

    source: str
    destination: str


class CreateBody(Named):
    """The body of ``/api/create``; earlier its fields were the text ``modelfile``."""

    model_config = ConfigDict(**_LOOSE, populate_by_name=True)

    source: str = Field("", alias="from")
    modelfile: str = ""
    template: str | None = None
    system: str | None = None
    license: str | list[str] | None = None
    parameters: dict[str, Any] | None = None
    messages: list[dict[str, Any]] | None = None
    files: dict[str, Any] | None = None
    adapters: dict[str, Any] | None = None
    quantize: str | None = None
    stream: bool | None = True
