"""Writes the conversation in docs/guides/chat.md: a real one, as it was on a terminal.

    python tools/gen_talk.py            # talk again if the page lacks a line of the script below
    python tools/gen_talk.py --again    # talk in any case
    python tools/gen_talk.py --check    # write nothing; exit code 1 if the page lacks a line

Speeds, and where the stopped answer ends, differ from run to run, so a page isn't compared with a
new conversation.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

DOC = ROOT / "docs/guides/chat.md"
BEGIN, END = "<!-- written by tools/gen_talk.py -->\n", "<!-- end of what is written -->\n"
COLUMNS, LINES = 76, 40
"""The terminal: narrow enough for the page."""
TOOLS = [{"type": "function", "function": {
    "name": "calculator", "description": "Work out a sum.", "parameters": {
        "type": "object", "properties": {"expression": {"type": "string"}},
        "required": ["expression"]}}}]
COMMAND = ("chat", "tiny-chat", "--temp", "0", "--tools", "tools.json")
ALT_ENTER, CTRL_C = "\x1b\r", "\x03"
STOPPED = "Tell me a story about a fox."
"""The question whose answer is stopped."""
SAID = 100
"""Characters after which it is stopped."""
CALLED, RESULT = "What is 12 * 7?", "84"
"""The question that makes the model call the tool, and what the user answers for the tool."""
SCRIPT = (
    "Hello!", "What color is the sky?", CALLED,
    f"Good morning!{ALT_ENTER}Who are you?",
    "/set ignore_eos on", STOPPED, "/set ignore_eos default", "Who is the story about?",
    "Thank you!", "/regen", "/save talk.json", "/system You are a friendly parrot.", "Hello!",
    "What can you do?", "/sve talk.json", "Bye!", "/bye")
"""What the user types: ten messages, and commands."""


def talk() -> str:
    """The conversation."""
    from seen_terminal import SeenTerminal
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "tools.json").write_text(json.dumps(TOOLS), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm-256color",
                       "UNLADEN_DEVICES": "cpu", "UNLADEN_HISTORY": ""}
        environment.pop("NO_COLOR", None)
        command = [sys.executable, "-c", f"import os; os.chdir({folder!r}); "
                   "from unladen.cli import program; program()", *COMMAND]
        with SeenTerminal(command, environment, COLUMNS, LINES) as there:
            for line in SCRIPT[:-1]:
                there.wait_for_prompt()
                if line == STOPPED:
                    there.type(f"{line}\r")
                    there.wait(lambda: len(there.text().partition(STOPPED)[2].strip()) > SAID)
                    there.type(CTRL_C)
                    there.wait_for("stopped, ")
                elif line == CALLED:
                    there.type(f"{line}\r")
                    there.wait_for("result of ")
                    there.type(f"{RESULT}\r")
                    there.wait_for_prompt()
                else:
                    there.ask(line)
            there.type(f"{SCRIPT[-1]}\r")
            code, text = there.end(), there.text()
    assert code == 0, text
    return f"$ unladen {' '.join(COMMAND)}\n{text.rstrip()}\n"


def shown(line: str) -> str:
    """How the typed ``line`` looks in the terminal."""
    return ">>> " + line.replace(ALT_ENTER, "\n... ")


def missing(page: str) -> list[str]:
    """The lines of the script that the conversation in ``page`` lacks."""
    text, at, lacks = page.partition(BEGIN)[2].partition(END)[0], 0, []
    for line in SCRIPT:
        found = text.find(f"{shown(line)}\n", at)
        if found < 0:
            lacks.append(line)
        else:
            at = found + len(line)
    return lacks


def main() -> int:
    page = DOC.read_text(encoding="utf-8")
    lacks = missing(page)
    if "--check" in sys.argv[1:]:
        if lacks:
            print(f"{DOC} lacks {lacks}: run tools/gen_talk.py", file=sys.stderr)
        return int(bool(lacks))
    if lacks or "--again" in sys.argv[1:]:
        before, _, rest = page.partition(BEGIN)
        after = rest.partition(END)[2]
        DOC.write_text(f"{before}{BEGIN}```text\n{talk()}```\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
