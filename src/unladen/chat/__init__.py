"""Conversations: messages become a prompt, and what a model writes becomes a message."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unladen.chat.form_of_answer import AnswerForm as AnswerForm
    from unladen.chat.learning import answer_form as answer_form
    from unladen.chat.messages import Message as Message
    from unladen.chat.messages import ToolCall as ToolCall
    from unladen.chat.parsing import Parser as Parser
    from unladen.chat.parsing import parse as parse
    from unladen.chat.template import ChatTemplate as ChatTemplate
    from unladen.chat.template import render as render

__all__ = ["AnswerForm", "ChatTemplate", "Message", "Parser", "ToolCall", "answer_form", "parse",
           "render"]

# Modules of public names, imported on first use: some parts of the package need only the words of a
# conversation, and not what makes a prompt of it.
_HOMES = {"AnswerForm": "form_of_answer", "answer_form": "learning", "Message": "messages",
          "ToolCall": "messages", "Parser": "parsing", "parse": "parsing",
          "ChatTemplate": "template", "render": "template"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'unladen.chat' has no attribute {name!r}")
    return getattr(importlib.import_module(f"unladen.chat.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
