"""Answers of ``unladen run``: whether a model is asked, and how the answer is written."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from unladen.chat.deltas import ContentDelta, ReasoningDelta
from unladen.cli._notes import note
from unladen.cli._text import DIM, NORMAL, has_styles, visible
from unladen.errors import ContextOverflow, InvalidArgument

if TYPE_CHECKING:
    from unladen.api import Model
    from unladen.api.chat_stream import ChatStream
    from unladen.chat.completion import ChatCompletion
    from unladen.chat.messages import ToolCall

_NO_TEMPLATE: Final = "needs a chat template, and the model's file has none"
_NAME_ONE: Final = "leave it out, or name a format: --template chatml"


def check_options(path: str, wanted: Mapping[str, Any], *, raw: bool, template: str | None) -> None:
    """Check, before the model at ``path`` is loaded, that the options of chats in ``wanted`` can
    have an effect. ``wanted`` maps them to their values. Raises :class:`InvalidArgument`."""
    given = next((name for name, value in wanted.items() if value is not None), None)
    if raw and (given or template is not None):
        raise InvalidArgument(f"{given or '--template'} is for chats, and --raw continues a text",
                              hint="leave one of them out")
    if given and template is None:
        from unladen.gguf import open_gguf
        from unladen.hub import INCLUDED, find_model
        found = find_model(path, aliases=INCLUDED)
        has_own = found.preset is not None and bool(found.preset.template)
        if not has_own and not has_template(open_gguf(found.path).metadata):
            raise InvalidArgument(f"{given} {_NO_TEMPLATE}", hint=_NAME_ONE)


def has_template(metadata: Mapping[str, Any]) -> bool:
    """Whether a file with this ``metadata`` has a chat template. Raises
    :class:`~unladen.errors.TemplateError` for one that isn't a text."""
    from unladen.chat.named import ChatTemplates
    return bool(ChatTemplates.from_metadata(metadata).names)


def asked(loaded: Model, question: str, system: str | None, **wanted: Any) -> ChatStream:
    """The answer to ``question``. Raises the errors of :meth:`unladen.Model.stream_chat`."""
    messages = [*([] if system is None else [{"role": "system", "content": system}]),
                {"role": "user", "content": question}]
    try:
        return loaded.stream_chat(messages, **wanted)
    except ContextOverflow as error:
        raise ContextOverflow(
            error.message, hint="shorten the prompt, give a larger context with -c NUMBER, or "
            "leave more of it for the prompt with a smaller -n NUMBER") from None


def write_text(stream: ChatStream) -> None:
    """Write the answer's text to stdout while it comes, then each complete call as a line of JSON.
    Reasoning goes to stderr where that is a terminal."""
    is_terminal, reasons = sys.stdout.isatty(), sys.stderr is not None and sys.stderr.isatty()
    last = ""
    dim, normal = (DIM, NORMAL) if has_styles() else ("", "")
    is_reasoning = False
    try:
        for delta in stream:
            if isinstance(delta, ReasoningDelta) and reasons:
                is_reasoning = True
                print(dim + visible(delta.text, keep="\n\t") + normal, end="", file=sys.stderr,
                      flush=True)
            elif isinstance(delta, ContentDelta) and delta.text:
                if is_reasoning:
                    print("\n", file=sys.stderr, flush=True)
                    is_reasoning = False
                sys.stdout.write(visible(delta.text, keep="\n\t") if is_terminal else delta.text)
                sys.stdout.flush()
                last = delta.text[-1]
        result = stream.result
        lines = [line for call in result.tool_calls if (line := _line(call))]
        if lines and last not in ("", "\n"):
            sys.stdout.write("\n")
        for line in lines:
            sys.stdout.write(f"{line}\n")
            last = "\n"
    finally:
        if is_reasoning:
            print(file=sys.stderr)
        if is_terminal and last != "\n":
            # An error message or the shell's prompt begins on a line of its own.
            sys.stdout.write("\n")
    for text in (*result.notes, *result.message.not_understood):
        note(text)


def _line(call: ToolCall) -> str:
    """``call`` as a line of JSON; "" where it breaks off, which a note says."""
    try:
        if call.is_complete:
            return json.dumps({"name": call.name, "arguments": call.values()})
    except (ValueError, RecursionError):
        pass  # the note says it
    note(f"the call of {call.name} breaks off, and is left out (--json shows what came)")
    return ""


def write_json(stream: ChatStream) -> None:
    """Write the whole answer to stdout as one JSON object."""
    for _ in stream:
        pass
    json.dump(_fields(stream.result), sys.stdout)
    sys.stdout.write("\n")


def _fields(result: ChatCompletion) -> dict[str, Any]:
    return {
        "text": result.text, "reasoning": result.reasoning,
        "tool_calls": [asdict(call) for call in result.tool_calls], "parsed": result.parsed,
        "stop_reason": result.stop_reason, "usage": asdict(result.usage),
        "timings": asdict(result.timings), "tokens": result.tokens,
        "logprobs": (None if result.logprobs is None
                     else [asdict(each) for each in result.logprobs]),
        "notes": [*result.notes, *result.message.not_understood]}
