"""A conversation: what the user says, and what the model answers, in turn."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from unladen.chat.formats import registry
from unladen.cli import _ending as ending
from unladen.cli._table import width
from unladen.cli._talk import has_terminal
from unladen.cli._talk.answers import answered, ctrl_c_calls
from unladen.cli._talk.lines import Lines, Reader
from unladen.cli._talk.screen import Screen, screen
from unladen.cli._talk.settings import Settings
from unladen.cli._text import visible
from unladen.errors import TemplateError

if TYPE_CHECKING:
    from unladen.api import Model, Session
    from unladen.api.chat_stream import ChatStream
    from unladen.chat.completion import ChatCompletion

NO_RESULT: Final = "error: the user gave no result"
"""What the model gets as the result of a call that the user left unanswered."""
LONGEST_NAME: Final = 40
"""Characters of a tool's name that are shown where its result is asked for."""

log = logging.getLogger("unladen")


def talk(model: Model, *, system: str | None = None, tools: Sequence[Any] | None = None,
         given: Mapping[str, Any], load: str | None = None) -> None:
    """Talk with ``model`` until the user ends it.

    * ``system``: the system message.
    * ``tools``: definitions of tools; the user gives their results.
    * ``given``: parameters of the answers, those of :meth:`unladen.Session.stream_say`.
    * ``load``: a file that ``/save`` wrote, from which the conversation goes on.

    Raises :class:`~unladen.errors.InvalidArgument`; :class:`SystemExit` where stdin isn't a
    terminal and a turn failed.
    """
    from unladen.cli._talk.slash import Slash, completions
    conversation = Conversation(model, Settings(given), screen(), system, tools)
    slash = Slash(conversation)
    conversation.check()
    if load is not None:
        slash.load(load)
    reader: Reader
    if has_terminal():
        from unladen.cli._talk.editor import Editor
        reader = Editor(completions)
    else:
        reader = Lines()
    conversation.reader = reader
    try:
        # Between an answer and the prompt Ctrl-C does nothing: pressed twice, it must not end the
        # program after it has ended the answer.
        with ctrl_c_calls(lambda: None):
            conversation.run(slash.obey)
    finally:
        conversation.session.close()
    if conversation.n_failed and not has_terminal():
        raise SystemExit(ending.Code.FAILED)


class Conversation:
    """The messages, and how they are read and shown.

    * ``settings``: parameters of the answers; ``screen``: where answers are shown.
    * ``system``, ``tools``: see :func:`talk`.
    """

    reader: Reader

    def __init__(self, model: Model, settings: Settings, screen: Screen, system: str | None,
                 tools: Sequence[Any] | None) -> None:
        self.model, self.settings, self.screen = model, settings, screen
        self._tools = tools
        self.session: Session = model.session(system=system, tools=tools)
        self.n_failed = 0
        self._draft = ""

    def check(self) -> None:
        """Raise :class:`TemplateError` for a model without a template before anybody writes a
        message."""
        template = self.settings.values.get("template")
        try:
            self.model._format(template, self._tools, None)
        except TemplateError as error:
            if template is None and not self.model.has_template:
                raise TemplateError(
                    "the model's file has none, so it was hardly made for conversations",
                    hint="unladen run MODEL PROMPT continues a text; unladen chat MODEL --template "
                         f"NAME talks in one of these formats: {', '.join(registry())}") from None
            raise error

    def run(self, obey: Callable[[str], bool]) -> None:
        """Take turns until the user ends it. ``obey`` obeys a line that begins with a slash, and
        returns whether the conversation goes on."""
        while True:
            draft, self._draft = self._draft, ""
            line = self.reader.message(draft)
            if line is None:
                return
            if line.startswith("/") and not line.startswith("//"):
                if not self._tried(partial(obey, line)):
                    return
            elif line.strip():
                said = line[1:] if line.startswith("//") else line
                if not self.say(said):
                    self._draft = line

    def say(self, text: str) -> bool:
        """Say ``text`` and show the answer. Returns False where the conversation is as before."""
        user = {"role": "user", "content": text}
        unanswered = [self._result(call, NO_RESULT) for call in self._calls()]
        return self._turn(partial(self.session.stream_say, [*unanswered, user],
                                  **self.settings.values))

    def regenerate(self) -> None:
        """Drop the last answer and show another one."""
        self._turn(partial(self.session.stream_regenerate, **self.settings.values))

    def begin_with(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Go on from ``messages`` instead of the ones so far."""
        new = self.model.session(messages=list(messages), tools=self._tools)
        self.session.close()
        self.session = new

    def fail(self, error: BaseException) -> None:
        """Show ``error``; the conversation goes on."""
        sys.stdout.flush()
        ending.say(error, width() - 1 if sys.stderr.isatty() else None)
        log.debug("the turn failed", exc_info=error)
        self.n_failed += 1

    def _tried(self, action: Callable[[], bool]) -> bool:
        try:
            return action()
        except ending.StdoutFailed:
            raise
        except Exception as error:  # noqa: BLE001 - no fault of one turn may cost the conversation
            self.fail(error)
            return True

    def _turn(self, begin: Callable[[], ChatStream]) -> bool:
        answer = self._answer(begin)
        if answer is None:
            return False
        while answer is not None and answer.stop_reason == "tool_calls":
            results = self._results()
            if results is None:
                break
            answer = self._answer(partial(self.session.stream_say, results,
                                          **self.settings.values))
        return True

    def _answer(self, begin: Callable[[], ChatStream]) -> ChatCompletion | None:
        """The answer; None where it left nothing in the conversation."""
        answers: list[ChatCompletion] = []

        def show() -> bool:
            answer = answered(begin, self.screen)
            answers.append(answer)
            for text in answer.notes:
                self.screen.says(f"note: {text}")
            self.screen.took(answer)
            return True

        self._tried(show)
        if not answers or (answers[0].stop_reason == "cancelled"
                           and not answers[0].usage.n_completion):
            return None
        return answers[0]

    def _calls(self) -> list[dict[str, Any]]:
        """The calls in the last message, which wait for results."""
        messages = self.session.messages
        last = messages[-1] if messages else {}
        return list(last.get("tool_calls") or ()) if last.get("role") == "assistant" else []

    def _results(self) -> list[dict[str, Any]] | None:
        """A message for each call, with the result that the user gives; None where one is missing.
        """
        results = []
        for call in self._calls():
            name = call.get("function", call).get("name", "")
            result = self.reader.result(f"result of {visible(name)[:LONGEST_NAME]}: ")
            if result is None:
                self.screen.says("No result: say something else, or /regen.")
                return None
            results.append(self._result(call, result))
        return results

    @staticmethod
    def _result(call: Mapping[str, Any], text: str) -> dict[str, Any]:
        function = call.get("function", call)
        return {"role": "tool", "content": text, "name": function.get("name", ""),
                **({"tool_call_id": call["id"]} if call.get("id") else {})}
