"""The line in which the user writes on a terminal: prompt_toolkit's, with a few own keys."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from unladen.cli._talk.history import history
from unladen.cli._talk.lines import ON, QUOTES, is_open, unquoted

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.completion import CompleteEvent, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.output import Output

PROMPT: Final = ">>> "
"""What stands before a message."""
GOES_ON: Final = "... "
"""What stands before the further lines of a message."""
PLACEHOLDER: Final = "Send a message (/help for help)"
"""What stands in an empty line."""
TWICE: Final = "(Ctrl-C again, or Ctrl-D, ends the conversation)"
"""What stands in the line after the first Ctrl-C."""

Words = Callable[[str], Sequence[str]]
"""A function from the text before the cursor to the lines that it may become."""


class Editor:
    """Reads messages with line editing and history. ``completions``: see :data:`Words`."""

    def __init__(self, completions: Words) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import InMemoryHistory
        from prompt_toolkit.shortcuts import CompleteStyle
        self._hint = PLACEHOLDER
        self._output = _output()
        shared: dict[str, Any] = {
            "multiline": True, "output": self._output, "enable_suspend": True,
            "reserve_space_for_menu": 0, "complete_style": CompleteStyle.READLINE_LIKE,
            "complete_while_typing": False, "key_bindings": self._keys(),
            "prompt_continuation":
                lambda width, number, wraps: " " * width if wraps else GOES_ON}
        self._messages: PromptSession[str | None] = PromptSession(
            history=history(), completer=_completer(completions), enable_open_in_editor=True,
            placeholder=lambda: [("fg:ansibrightblack", self._fitting())], **shared)
        self._messages.default_buffer.on_text_changed += self._changed
        self._results: PromptSession[str | None] = PromptSession(
            history=InMemoryHistory(), **shared)

    def message(self, draft: str = "") -> str | None:
        """See :class:`~unladen.cli._talk.lines.Reader`."""
        self._hint = PLACEHOLDER
        return self._read(self._messages, PROMPT, draft)

    def result(self, prompt: str) -> str | None:
        """See :class:`~unladen.cli._talk.lines.Reader`."""
        self._hint = TWICE  # one Ctrl-C gives no result
        return self._read(self._results, prompt, "")

    @staticmethod
    def _read(session: PromptSession[str | None], prompt: str, draft: str) -> str | None:
        try:
            text = session.prompt(prompt, default=draft)
        except EOFError:  # the terminal is gone
            return None
        return None if text is None else unquoted(text)

    def _changed(self, buffer: Buffer) -> None:
        if buffer.text:
            self._hint = PLACEHOLDER

    def _fitting(self) -> str:
        """The hint where the line has room for it."""
        room = self._output.get_size().columns - len(PROMPT) - 1
        return self._hint if len(self._hint) <= room else ""

    def _keys(self) -> KeyBindings:
        from prompt_toolkit.key_binding import KeyBindings
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if not is_open(buffer.text):
                buffer.validate_and_handle()
                return
            buffer.cursor_position = len(buffer.text)
            if not buffer.text.strip().startswith(QUOTES):
                buffer.delete_before_cursor(len(ON))
            buffer.insert_text("\n")

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.text:
                # The arrow keys bring it back.
                buffer.reset(append_to_history=True)
            elif self._hint == TWICE:
                self._leave(event)
                return
            self._hint = TWICE

        @keys.add("c-d")
        def _(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.current_buffer.delete()
            else:
                self._leave(event)

        return keys

    def _leave(self, event: KeyPressEvent) -> None:
        self._hint = ""  # what stays on the screen
        event.app.exit(result=None)


def _output() -> Output:
    """The terminal. It isn't asked where the cursor is: some don't answer."""
    from prompt_toolkit.output import create_output
    if sys.platform == "win32":
        return create_output(stdout=sys.stdout)
    from prompt_toolkit.output.vt100 import Vt100_Output
    output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
    output.enable_cpr = False
    return output


def _completer(completions: Words) -> Any:
    from prompt_toolkit.completion import Completer, Completion

    class Slashes(Completer):
        """Completes commands, their settings and their files."""

        def get_completions(self, document: Document, complete_event: CompleteEvent
                            ) -> Iterable[Completion]:
            """See :class:`prompt_toolkit.completion.Completer`."""
            before = document.text_before_cursor
            word = before.rpartition(" ")[2]
            for text in completions(before):
                yield Completion(text, start_position=-len(word))

    return Slashes()
