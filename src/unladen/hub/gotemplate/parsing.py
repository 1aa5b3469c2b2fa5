"""Parses Go templates."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Final

from unladen.errors import TemplateError
from unladen.hub.gotemplate.budget import DEPTH, error_at
from unladen.hub.gotemplate.lexing import Word, words
from unladen.hub.gotemplate.literals import number, unquoted
from unladen.hub.gotemplate.nodes import (
    Action,
    Branch,
    Call,
    Constant,
    Function,
    Jump,
    Node,
    Operand,
    Parsed,
    Path,
    Pipe,
    Text,
)

KEYWORDS: Final = frozenset(("if", "else", "end", "with", "range", "define", "template", "block",
                             "break", "continue"))
MAX_CHARS: Final = 1 << 20
"""Characters of a template at most."""
MAX_VARIABLES: Final = 1000
"""Variables that may be declared at the same time."""
_CONSTANTS: Final = {"true": True, "false": False}


def parse(source: str, functions: Container[str]) -> Parsed:
    """The parsed template. ``functions``: the names of those that it may call. Raises
    :class:`TemplateError`."""
    if len(source) > MAX_CHARS:
        raise TemplateError(f"it has more than {MAX_CHARS} characters", hint="pass another one")
    return _Parser(source, functions).parsed()


class _Parser:
    """Reads words one after the other; ``_depth`` counts blocks and parentheses around them."""

    def __init__(self, source: str, functions: Container[str]) -> None:
        self._words = list(words(source))
        self._at = 0
        self._functions = functions
        self._variables = ["$"]
        self._depth = 0
        self._n_loops = 0
        self._defined: dict[str, list[Node]] = {}
        self._names: set[str] = set()

    def parsed(self) -> Parsed:
        body: list[Node] = []
        while self._at < len(self._words):
            if self._peek(1).text == "define" and self._peek().kind == "begin":
                self._define()
            else:
                node = self._node()
                if isinstance(node, Word):
                    raise error_at(node.line, f"unexpected {{{{{node.text}}}}}")
                body.append(node)
        return Parsed(body, self._defined, frozenset(self._names))

    def _peek(self, ahead: int = 0) -> Word:
        at = self._at + ahead
        if at < len(self._words):
            return self._words[at]
        return Word("eof", "the end", self._words[-1].line if self._words else 1)

    def _next(self) -> Word:
        word = self._peek()
        self._at += 1
        return word

    @contextmanager
    def _nested(self, line: int) -> Iterator[None]:
        """Count a level, and forget the variables that it declares at its end."""
        self._depth += 1
        if self._depth >= DEPTH:
            raise error_at(line, f"blocks and parentheses nest {DEPTH} deep or deeper")
        n_variables = len(self._variables)
        yield
        del self._variables[n_variables:]
        self._depth -= 1

    def _node(self) -> Node | Word:
        """The next node; the keyword of an ``else`` or ``end``, whose action isn't read on."""
        word = self._next()
        if word.kind == "eof":
            raise error_at(word.line, "an {{end}} is missing")
        if word.kind == "text":
            return Text(word.line, word.text)
        keyword = self._peek()
        if keyword.kind != "name" or keyword.text not in KEYWORDS:
            return Action(word.line, self._pipe("end"))
        self._next()
        match keyword.text:
            case "else" | "end":
                return keyword
            case "if" | "with" | "range":
                return self._branch(keyword)
            case "break" | "continue":
                if not self._n_loops:
                    raise error_at(keyword.line, f"{{{{{keyword.text}}}}} outside of a range")
                self._close()
                return Jump(keyword.line, keyword.text)
            case "template":
                name = self._name()
                pipe = None if self._peek().kind == "end" else self._pipe("end")
                if pipe is None:
                    self._close()
                return Call(keyword.line, name, pipe)
            case "block":
                return self._block(keyword)
        raise error_at(keyword.line, f"unexpected {{{{{keyword.text}}}}}")

    def _close(self) -> None:
        word = self._next()
        if word.kind != "end":
            raise error_at(word.line, f"unexpected {word.text}")

    def _name(self) -> str:
        word = self._next()
        if word.kind not in ("string", "raw"):
            raise error_at(word.line, f"a template's name must be a text, got {word.text}")
        return self._text(word)

    def _text(self, word: Word) -> str:
        try:
            return unquoted(word.text)
        except ValueError:
            raise error_at(word.line, f"malformed text {word.text[:40]}") from None

    def _body(self) -> tuple[list[Node], Word]:
        """Nodes up to ``else`` or ``end``, and that keyword."""
        found: list[Node] = []
        while not isinstance(node := self._node(), Word):
            found.append(node)
        return found, node

    def _branch(self, keyword: Word) -> Branch:
        branch = Branch(keyword.line, keyword.text)
        loops = keyword.text == "range"
        with self._nested(keyword.line):
            while True:
                pipe = self._pipe("end", n_variables=2 if loops else 1)
                self._n_loops += loops
                body, last = self._body()
                self._n_loops -= loops
                branch.cases.append((pipe, body))
                if last.text == "end":
                    break
                follows = self._peek()
                if not loops and follows.kind == "name" and follows.text == keyword.text:
                    self._next()
                    continue
                self._close()
                branch.otherwise, last = self._body()
                if last.text != "end":
                    raise error_at(last.line, "unexpected {{else}} after {{else}}")
                break
            self._close()
        return branch

    def _define(self) -> None:
        self._next()
        self._keep(self._next(), self._name(), closes=True)

    def _block(self, keyword: Word) -> Call:
        name = self._name()
        pipe = self._pipe("end")
        self._keep(keyword, name, closes=False)
        return Call(keyword.line, name, pipe)

    def _keep(self, keyword: Word, name: str, *, closes: bool) -> None:
        """Read the body of ``define`` or ``block``, which has variables of its own."""
        if closes:
            self._close()
        outer, self._variables = self._variables, ["$"]
        n_loops, self._n_loops = self._n_loops, 0
        with self._nested(keyword.line):
            body, last = self._body()
        if last.text != "end":
            raise error_at(last.line, f"unexpected {{{{else}}}} in {keyword.text}")
        self._close()
        self._variables, self._n_loops = outer, n_loops
        if _is_empty(self._defined.get(name, [])):
            self._defined[name] = body
        elif not _is_empty(body):
            raise error_at(keyword.line, f"the template {name[:40]!r} is defined twice")

    def _pipe(self, end: str, n_variables: int = 1) -> Pipe:
        """A pipeline and the word of kind or text ``end`` after it."""
        line = self._peek().line
        variables, declares = self._targets(n_variables)
        # Go looks for a variable in the values that follow only when it computes them.
        self._variables += variables
        if len(self._variables) > MAX_VARIABLES:
            raise error_at(line, f"there are more than {MAX_VARIABLES} variables")
        commands: list[tuple[Operand, ...]] = []
        while True:
            if commands and end in (self._peek().kind, self._peek().text):
                word = self._next()  # Go takes a | at the end
                break
            command = self._command()
            if commands and not isinstance(command[0], Function | Path):
                raise error_at(line, f"stage {len(commands) + 1} of a pipeline must be a function")
            commands.append(command)
            word = self._next()
            if word.text != "|" or word.kind != "mark":
                break
        if end not in (word.kind, word.text):
            raise error_at(word.line, f"unexpected {word.text}")
        return Pipe(line, tuple(commands), variables, declares)

    def _targets(self, most: int) -> tuple[tuple[str, ...], bool]:
        """The variables before ``:=`` or ``=``, and whether they are new."""
        found: list[str] = []
        start = self._at
        while self._peek().kind == "variable":
            found.append(self._next().text)
            mark = self._next()
            if mark.text in (":=", "="):
                break
            if mark.text != ",":
                self._at = start
                return (), False
        else:
            if found:
                raise error_at(self._peek().line, "a variable must follow the comma")
            return (), False
        if len(found) > most:
            raise error_at(mark.line, f"{len(found)} variables take what {most} can")
        return tuple(found), mark.text == ":="

    def _command(self) -> tuple[Operand, ...]:
        operands: list[Operand] = []
        while True:
            word = self._peek()
            if word.kind in ("end", "eof") or (word.kind == "mark" and word.text != "("):
                break
            if operands and not word.spaced:
                raise error_at(word.line, f"unexpected {word.text}")
            operands.append(self._operand())
        if not operands:
            raise error_at(self._peek().line, "a value is missing")
        return tuple(operands)

    def _operand(self) -> Operand:
        word = self._next()
        match word.kind:
            case "string" | "raw":
                return self._no_fields(Constant(self._text(word)), word)
            case "number" | "char":
                try:
                    return self._no_fields(Constant(number(word.text)), word)
                except ValueError:
                    raise error_at(word.line, f"malformed number {word.text[:40]}") from None
            case "dot":
                return Path(None, self._fields())
            case "field":
                self._at -= 1
                return Path(None, self._fields(first=True))
            case "variable":
                self._check_variable(word.text, word.line)
                return Path(word.text, self._fields())
            case "name":
                return self._no_fields(self._named(word), word)
        if word.text != "(":
            raise error_at(word.line, f"unexpected {word.text}")
        with self._nested(word.line):
            pipe = self._pipe(")")
        self._variables += pipe.variables
        fields = self._fields()
        return Path(pipe, fields) if fields else pipe

    def _named(self, word: Word) -> Operand:
        if word.text in _CONSTANTS or word.text == "nil":
            return Constant(_CONSTANTS.get(word.text))
        if word.text in KEYWORDS:
            raise error_at(word.line, f"unexpected {word.text}")
        if word.text not in self._functions:
            raise error_at(word.line, f"there is no function {word.text[:40]}")
        return Function(word.text)

    def _no_fields(self, operand: Operand, word: Word) -> Operand:
        if self._peek().kind == "field" and not self._peek().spaced:
            raise error_at(word.line, f"unexpected {self._peek().text} after {word.text[:40]}")
        return operand

    def _fields(self, *, first: bool = False) -> tuple[str, ...]:
        """The names of fields that stand here without a blank; ``first``: one before the first is
        fine."""
        found: list[str] = []
        while self._peek().kind == "field" and (first or not self._peek().spaced):
            found.append(self._next().text[1:])
            first = False
        self._names.update(name.lower() for name in found)
        return tuple(found)

    def _check_variable(self, name: str, line: int) -> None:
        if name not in self._variables:
            raise error_at(line, f"undefined variable {name[:40]}")


def _is_empty(body: list[Node]) -> bool:
    return all(isinstance(node, Text) and not node.text.strip() for node in body)
