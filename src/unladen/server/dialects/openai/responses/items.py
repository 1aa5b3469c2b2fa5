"""The items of an answer as they grow, and the events that tell of them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from typing import Any

from unladen.server.dialects.openai import shapes
from unladen.server.dialects.openai.responses.asked import sealed
from unladen.server.events import (
    Begun,
    CallArguments,
    CallBegun,
    Ended,
    Event,
    Piece,
    Probabilities,
    Reasoning,
)

Told = tuple[str, dict[str, Any]]
"""The type of an event, and its fields."""


def new_id(prefix: str) -> str:
    """An id for an item or a response."""
    return f"{prefix}_{secrets.token_hex(16)}"


class Items:
    """The items of an answer. ``seals``: reasoning gets an ``encrypted_content``."""

    def __init__(self, *, seals: bool) -> None:
        self.output: list[dict[str, Any]] = []
        self.end: Ended | None = None
        self.notes: list[str] = []
        """What was left out of the conversation or changed in it."""
        self._seals = seals
        self._tokens: shapes.TokenList = []

    def take(self, event: Event) -> Iterator[Told]:
        """What ``event`` changes."""
        if isinstance(event, Begun):
            self.notes = event.told()
        elif isinstance(event, Probabilities):
            self._tokens += event.tokens
        elif isinstance(event, Piece):
            yield from self._piece(event.text)
        elif isinstance(event, Reasoning):
            yield from self._reasoning(event.text)
        elif isinstance(event, CallBegun):
            yield from self._close()
            yield from self._open({"id": new_id("fc"), "type": "function_call",
                                   "status": "in_progress", "call_id": event.id,
                                   "name": event.name, "arguments": ""})
        elif isinstance(event, CallArguments):
            item = self.output[-1]
            item["arguments"] += event.text
            yield "response.function_call_arguments.delta", {
                **self._at(), "delta": event.text}
        elif isinstance(event, Ended):
            self.end = event
            yield from self._close()

    def _at(self, part: bool = False) -> dict[str, Any]:
        return {"item_id": self.output[-1]["id"], "output_index": len(self.output) - 1,
                **({"content_index": 0} if part else {})}

    def _is_open(self, kind: str) -> bool:
        return bool(self.output) and self.output[-1]["type"] == kind and (
            self.output[-1]["status"] == "in_progress")

    def _open(self, item: dict[str, Any]) -> Iterator[Told]:
        self.output.append(item)
        yield "response.output_item.added", {"output_index": len(self.output) - 1,
                                             "item": json.loads(json.dumps(item))}

    def _piece(self, text: str) -> Iterator[Told]:
        if not self._is_open("message"):
            yield from self._close()
            yield from self._open({"id": new_id("msg"), "type": "message", "role": "assistant",
                                   "status": "in_progress", "content": []})
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            self.output[-1]["content"].append(part)
            yield "response.content_part.added", {**self._at(part=True), "part": {
                **part, "annotations": [], "logprobs": []}}
        part = self.output[-1]["content"][0]
        part["text"] += text
        logprobs = self._logprobs()
        part["logprobs"] += logprobs
        yield "response.output_text.delta", {**self._at(part=True), "delta": text,
                                             "logprobs": logprobs}

    def _reasoning(self, text: str) -> Iterator[Told]:
        if not self._is_open("reasoning"):
            yield from self._close()
            yield from self._open({"id": new_id("rs"), "type": "reasoning", "summary": [],
                                   "content": [], "encrypted_content": None,
                                   "status": "in_progress"})
            self.output[-1]["content"].append({"type": "reasoning_text", "text": ""})
            yield "response.content_part.added", {**self._at(part=True), "part": {
                "type": "reasoning_text", "text": ""}}
        self.output[-1]["content"][0]["text"] += text
        yield "response.reasoning_text.delta", {**self._at(part=True), "delta": text}

    def _logprobs(self) -> list[dict[str, Any]]:
        tokens, self._tokens = self._tokens, []
        content: list[dict[str, Any]] = shapes.chat_logprobs(tokens)["content"]
        return content

    def _close(self) -> Iterator[Told]:
        """Complete the last item, if it is under way."""
        if not self.output or self.output[-1]["status"] != "in_progress":
            return
        item = self.output[-1]
        is_cut = self.end is not None and self.end.reason in ("length", "context", "deadline")
        item["status"] = "incomplete" if is_cut else "completed"
        if item["type"] == "function_call":
            yield "response.function_call_arguments.done", {
                **self._at(), "name": item["name"], "arguments": item["arguments"]}
        else:
            part = item["content"][0]
            kind = "output_text" if item["type"] == "message" else "reasoning_text"
            more = {"logprobs": part["logprobs"]} if kind == "output_text" else {}
            yield f"response.{kind}.done", {**self._at(part=True), "text": part["text"], **more}
            yield "response.content_part.done", {**self._at(part=True), "part": part}
        if item["type"] == "reasoning" and self._seals:
            item["encrypted_content"] = sealed(item["content"][0]["text"])
        yield "response.output_item.done", {"output_index": len(self.output) - 1, "item": item}
