"""Rewrites a command line for llama.cpp into one for unladen; see ``_llamacpp.py``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from typer.core import TyperCommand

from unladen.cli._ending import Misused
from unladen.cli._llamacpp import (
    BY_COMMAND,
    EVERYWHERE,
    LETTERS,
    STEPS,
    Absent,
    Idle,
    Meaning,
    Same,
    Special,
)
from unladen.cli._progress import bars_end_here
from unladen.cli._text import visible

_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "'": "'", '"': '"', "\\": "\\"}


class PastingCommand(TyperCommand):
    """A command that understands llama.cpp's options in addition to its own."""

    def invoke(self, ctx: Any) -> Any:
        """See :class:`typer.core.TyperCommand`."""
        with bars_end_here():
            return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See :class:`typer.core.TyperCommand`."""
        known = BY_COMMAND.get(self.name or "")
        if known is None or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        own = {name: not getattr(p, "is_flag", False)
               for p in self.params if p.param_type_name == "option"
               for name in (*p.opts, *p.secondary_opts)}
        pasted = Pasted(own, {**EVERYWHERE, **known})
        rewritten = pasted.rewritten(args)
        if pasted.notes:
            print(visible("no effect here: " + "; ".join(
                f"{', '.join(names)} ({why})" for why, names in pasted.notes.items())),
                file=sys.stderr)
        return super().parse_args(ctx, rewritten)


class _Word(NamedTuple):
    """An option on the command line and its value."""

    name: str
    value: str | None


class Pasted:
    """Rewrites one command line. ``own`` maps the command's options to whether each takes a value;
    ``known`` are llama.cpp's options."""

    def __init__(self, own: Mapping[str, bool], known: Mapping[str, Meaning]) -> None:
        self._own = own
        self._known = {name: meaning for name, meaning in known.items() if self._may_mean(meaning)}
        self.notes: dict[str, list[str]] = {}
        self._options: list[str] = []
        self._places: list[str] = []
        self._given: dict[str, str] = {}
        self._escaped = False

    def _may_mean(self, meaning: Meaning) -> bool:
        needs = {"batch": "--batch-size", "ubatch": "--batch-size", "devices": "--device",
                 "shares": "--tensor-split", "keys": "--kv-type", "values": "--kv-type",
                 "no_op_offload": "--stream-weights"}
        if isinstance(meaning, Same):
            return meaning.option in self._own or meaning.option == "--help"
        return not isinstance(meaning, Special) or needs.get(meaning.rule, "") in ("", *self._own)

    def rewritten(self, args: Sequence[str]) -> list[str]:
        """``args`` with unladen's options; raises :class:`Misused` for what unladen can't do."""
        for word in self._words(list(args)):
            meaning = self._known.get(word.name)
            if isinstance(meaning, Same):
                if word.value not in meaning.drops:
                    self._option(meaning.option, word.value)
            elif isinstance(meaning, Special):
                getattr(self, f"_rule_{meaning.rule}")(word.value or "")
            elif isinstance(meaning, Idle):
                if meaning.why:
                    self.notes.setdefault(meaning.why, []).append(word.name)
            elif isinstance(meaning, Absent):
                raise Misused(f"{word.name}: {meaning.why}", hint=meaning.hint)
        self._finish()
        return [*self._options, *(["--", *self._places] if self._places else [])]

    def _words(self, args: list[str]) -> Iterator[_Word]:
        """llama.cpp's options in ``args``. Other words are passed on as they are."""
        while args:
            arg = args.pop(0)
            name, equals, value = arg.partition("=") if arg.startswith("--") else (arg, "", "")
            meaning = self._known.get(name)
            if arg == "--":
                self._places += args
                return
            if meaning is None:
                self._pass_on(name, arg, equals, args)
            elif equals:
                yield _Word(name, value)
            elif meaning.has_value:
                if not args:
                    raise Misused(f"{name} needs a value", hint=f"for example {name} VALUE")
                yield _Word(name, args.pop(0))
            else:
                if isinstance(meaning, Idle) and args and args[0] in meaning.values:
                    args.pop(0)
                yield _Word(name, None)

    def _pass_on(self, name: str, arg: str, equals: str, args: list[str]) -> None:
        if not arg.startswith("-") or arg == "-":
            self._places.append(arg)
            return
        self._options.append(arg)
        if self._own.get(name) and not equals and args:
            self._options.append(args.pop(0))

    def _option(self, name: str, value: str | None) -> None:
        self._options += [name] if value is None else [name, value]

    def _once(self, what: str, value: str) -> None:
        if what in self._given:
            raise Misused(f"{what} is given twice: {self._given[what]!r} and {value!r}",
                          hint="give one")
        self._given[what] = value

    def _finish(self) -> None:
        """Add what is known only at the end: positional arguments, and options that several of
        llama.cpp's options make up."""
        given = self._given
        if "--hf-repo" in given:
            repo, file = given["--hf-repo"], given.get("--hf-file")
            self._once("model", f"hf://{repo.partition(':')[0]}/{file}" if file else repo)
        if "model" in given:
            self._places.insert(0, given["model"])
        if "prompt" in given:
            self._places.append(_unescaped(given["prompt"]) if self._escaped else given["prompt"])
        elif self._escaped and len(self._places) > 1:
            self._places[1] = _unescaped(self._places[1])
        if "keys" in given or "values" in given:
            self._option("--kv-type", f"{given.get('keys', 'f16')},{given.get('values', 'f16')}")
        if (batch := given.get("ubatch", given.get("batch"))) is not None:
            self._option("--batch-size", batch)

    def _rule_model(self, value: str) -> None:
        self._once("model", value)

    def _rule_hub(self, value: str) -> None:
        self._once("--hf-repo", value)

    def _rule_hub_file(self, value: str) -> None:
        self._once("--hf-file", value)

    def _rule_token(self, value: str) -> None:
        os.environ["HF_TOKEN"] = value

    def _rule_offline(self, value: str) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"

    def _rule_prompt(self, value: str) -> None:
        self._once("prompt", value)

    def _rule_file(self, value: str) -> None:
        try:
            text = Path(value).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise Misused(f"{value} can't be read: {reason}",
                          hint="give a file of UTF-8 text") from None
        self._once("prompt", text.removesuffix("\n"))

    def _rule_escapes(self, value: str) -> None:
        self._escaped = True

    def _rule_batch(self, value: str) -> None:
        self._given["batch"] = value

    def _rule_ubatch(self, value: str) -> None:
        self._given["ubatch"] = value

    def _rule_devices(self, value: str) -> None:
        self._option("--device", "cpu" if value == "none" else value)

    def _rule_shares(self, value: str) -> None:
        """llama.cpp also takes a slash between the shares."""
        self._option("--tensor-split", value.replace("/", ","))

    def _rule_keys(self, value: str) -> None:
        self._given["keys"] = value

    def _rule_values(self, value: str) -> None:
        self._given["values"] = value

    def _rule_no_op_offload(self, value: str) -> None:
        self._option("--stream-weights", "off")

    def _rule_bias(self, value: str) -> None:
        """``TOKEN_ID(+/-)BIAS`` is ``TOKEN_ID=BIAS``."""
        match = re.fullmatch(r"(\d+)([+-].+)", value)
        self._option("--logit-bias", f"{match[1]}={match[2]}" if match else value)

    def _rule_steps(self, value: str) -> None:
        self._option("--samplers", ";".join(STEPS.get(name, name) for name in value.split(";")))

    def _rule_letters(self, value: str) -> None:
        unknown = [letter for letter in value if letter not in LETTERS]
        if unknown:
            raise Misused(f"{', '.join(unknown)}: no such step of the sampler",
                          hint=", ".join(f"{k} {name}" for k, name in LETTERS.items()))
        self._option("--samplers", ";".join(LETTERS[letter] for letter in value))

    def _rule_format(self, value: str) -> None:
        if value in ("json", "csv"):
            self._option(f"--{value}", None)
        elif value != "md":
            raise Misused(f"-o {value}: no such format", hint="md, json or csv")

    def _rule_mmap(self, value: str) -> None:
        if value == "0":
            self._option("--no-mmap", None)

    def _rule_no_kv(self, value: str) -> None:
        if value not in ("0", "false"):
            self._option("--no-kv-offload", None)


def _unescaped(text: str) -> str:
    r"""``text`` with ``\n`` and the like as the characters that they stand for."""
    def character(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[0])
    return re.sub(r"\\(?:x([0-9a-fA-F]{2})|(.))", character, text, flags=re.S)
