"""The page about the command line, made from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from reference.markdown import cell, prose, table
from unladen.cli._llamacpp import (
    BY_COMMAND,
    EVERYWHERE,
    RULES,
    Absent,
    Idle,
    Meaning,
    Same,
    Special,
)
from unladen.cli.app import build_app

HEAD = """# The command line

`unladen COMMAND -h` shows the same. Data goes to stdout, messages go to stderr. [Exit
codes](exit-codes.md) and [environment variables](environment.md) have pages of their own. MODEL is
a GGUF file, `tiny`, or a model of Hugging Face such as `org/repo:Q4_K_M`.

"""
THEIRS = {
    "--install-completion": "Install completion for the current shell.",
    "--show-completion": "Show the script for completion, to copy it or to change it.",
    "-h": "Show help and exit.", "--help": "Show help and exit."}
"""Options that the parser adds: its own help texts differ from version to version."""
LLAMA_CPP = """## llama.cpp's options

Command lines for llama.cpp's programs work when the program's name is changed: `llama-cli -m
model.gguf -p "Once" -n 64` is `unladen run -m model.gguf -p "Once" -n 64`. Options that are the
same here aren't listed. These are accepted in addition:

"""


def page() -> str:
    """The page's text."""
    group: Any = typer.main.get_command(build_app())
    context = group.make_context("unladen", [], resilient_parsing=True)
    parts = [HEAD, table(("command", ""), (
        (f"[`{name}`](#unladen-{name})", prose(_first(command.help)))
        for name, command in sorted(group.commands.items()))), "\n"]
    parts += ["Options before the command:\n\n", _options(group, context), "\n"]
    for name, command in sorted(group.commands.items()):
        with command.make_context(name, [], parent=context, resilient_parsing=True) as inner:
            parts.append(_command(name, command, inner))
    return "".join([*parts, LLAMA_CPP, _pasted()])


def _first(text: str | None) -> str:
    return (text or "").partition("\n\n")[0]


def _command(name: str, command: Any, context: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join(_place(p) for p in arguments)
    text = f"## unladen {name}\n\n{prose(command.help or '')}\n\n"
    text += f"```text\nunladen {name} {f'{usage} ' if usage else ''}[OPTIONS]\n```\n\n"
    if arguments:
        rows = [(f"`{_place(p)}`", _default(p, context), prose(p.help or "")) for p in arguments]
        text += table(("argument", "default", "meaning"), rows) + "\n"
    return text + _options(command, context) + "\n"


def _place(param: Any) -> str:
    name = str(param.metavar or param.name.upper()).strip("[]")
    return name if param.required else f"[{name}]"


def _options(command: Any, context: Any) -> str:
    rows = [(", ".join(f"`{name}`" for name in _names(param)),
             _default(param, context), prose(THEIRS.get(_names(param)[0], param.help or "")))
            for param in command.get_params(context)
            if param.param_type_name == "option" and not getattr(param, "hidden", False)]
    return table(("option", "default", "meaning"), rows)


def _names(param: Any) -> list[str]:
    names = [*param.opts, *param.secondary_opts]
    # The parser keeps those of the help in a set.
    return sorted(names, key=len) if "--help" in names else names


def _default(param: Any, context: Any) -> str:
    if isinstance(param.show_default, str):
        return cell(param.show_default)
    if param.required or (getattr(param, "is_flag", False) and not param.secondary_opts):
        return ""
    value = param.get_default(context, call=False)
    if getattr(param, "is_flag", False):
        return "on" if value else "off"
    return "" if value is None or callable(value) else f"`{value}`"


def _pasted() -> str:
    text = table(("llama.cpp", "here"), _rows(EVERYWHERE))
    for name, meanings in BY_COMMAND.items():
        if meanings:
            text += f"\nFor `unladen {name}`, also:\n\n"
            text += table(("llama.cpp", "here"), _rows(meanings))
    return text


def _rows(meanings: Mapping[str, Meaning]) -> Iterator[tuple[str, str]]:
    groups: dict[Meaning, list[str]] = {}
    for name, meaning in meanings.items():
        groups.setdefault(meaning, []).append(f"`{name}`")
    for meaning, names in groups.items():
        if isinstance(meaning, Same) and names == [f"`{meaning.option}`"]:
            continue
        yield ", ".join(names), _meaning(meaning)


def _meaning(meaning: Meaning) -> str:
    if isinstance(meaning, Same):
        without = " or ".join(f"`{value}`" for value in meaning.drops)
        return f"`{meaning.option}`" + (f"; {without}: left out" if without else "")
    if isinstance(meaning, Special):
        return RULES[meaning.rule]
    if isinstance(meaning, Idle):
        return f"no effect, with a note: {meaning.why}" if meaning.why else "this happens anyway"
    assert isinstance(meaning, Absent)
    return f"an error: {meaning.why} ({meaning.hint})"
